"""Tree → tables of a deterministic automaton, which reads a text once, whatever the pattern.

Thompson's construction (K. Thompson, "Regular Expression Search Algorithm", CACM 11, 1968), then
the subset construction (M. Rabin, D. Scott, 1959) over classes of characters, with sets of nodes as
the bits of one integer. An unanchored search begins anew before every character, and stops at the
first match, as only its truth is asked for. It is over characters rather than over the bytes of
UTF-8: ``.{40}`` needs a quarter of the states, and text is mostly ASCII, which takes one look-up
either way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from filter.expr.regexp.points import Ranges
from filter.expr.regexp.tree import Chain, Choice, Edge, Joined, Part, Repeat

MAX_NODES = 6_000
MAX_STATES = 2_000
MAX_ENTRIES = 1_000_000
MAX_STEPS = 1_000_000

DEAD, FOUND = 0, 1


class TooLarge(Exception):
    """The automaton is beyond one of the limits above."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """What ``cdc.kernels.expr_regexp`` takes.

    ``table`` int32[states * width] has the next state times ``width`` for each class of characters,
    and in its last column for an end that ``$`` means. State 0 is dead, state 1 is a match; both
    stay. ``lows`` int32 are the first characters of the ranges whose classes are ``classes``.
    """

    table: npt.NDArray[np.int32]
    width: int
    start: int
    lows: npt.NDArray[np.int32]
    classes: npt.NDArray[np.int32]
    has_end: bool

    def class_of(self, point: int) -> int:
        """The class of a character."""
        return int(self.classes[bisect_right(self.lows, point) - 1])


def build(part: Part) -> Automaton:
    """The automaton that searches; ``TooLarge`` if it needs more than the limits."""
    net = _Net()
    first = net.node()
    last = net.node()
    net.part(part, first, last)
    lows, classes, members = _classes(list(net.sets))
    return _Subsets(net, first, last, members).build(lows, classes)


class _Net:
    """Nodes with moves over sets of characters, and free ones: always, at the start, at an end."""

    def __init__(self) -> None:
        self.free: list[list[int]] = []
        self.starts: list[list[int]] = []
        self.ends: list[list[int]] = []
        self.moves: list[list[tuple[int, int]]] = []
        self.sets: dict[Ranges, int] = {}
        self.parts = 0

    def node(self) -> int:
        if len(self.free) >= MAX_NODES:
            raise TooLarge
        for links in (self.free, self.starts, self.ends):
            links.append([])
        self.moves.append([])
        return len(self.free) - 1

    def move(self, a: int, ranges: Ranges, b: int) -> None:
        self.moves[a].append((self.sets.setdefault(ranges, len(self.sets)), b))

    def part(self, part: Part, a: int, b: int) -> None:
        """The nodes of ``part`` from ``a`` to ``b``."""
        self.parts += 1
        if self.parts > MAX_NODES:
            # Empty groups have no nodes, and can be repeated all the same.
            raise TooLarge
        if isinstance(part, Chain):
            between = [a, *(self.node() for _ in part.sets[1:]), b]
            for i, ranges in enumerate(part.sets):
                self.move(between[i], ranges, between[i + 1])
            for i, j, ranges in part.jumps:
                self.move(between[i], ranges, between[j])
        elif isinstance(part, Edge):
            (self.ends if part.end else self.starts)[a].append(b)
        elif isinstance(part, Joined):
            for one in part.parts:
                after = self.node()
                self.part(one, a, after)
                a = after
            self.free[a].append(b)
        elif isinstance(part, Choice):
            for one in part.parts:
                self.part(one, a, b)
        else:
            self.repeat(part, a, b)

    def repeat(self, part: Repeat, a: int, b: int) -> None:
        for _ in range(part.least):
            after = self.node()
            self.part(part.part, a, after)
            a = after
        if part.most is None:
            # Nodes of its own: what leads into the loop must not lead out of its middle.
            loop, back = self.node(), self.node()
            self.free[a].append(loop)
            self.part(part.part, loop, back)
            self.free[back].append(loop)
            a = loop
        else:
            for _ in range(part.most - part.least):
                inside, after = self.node(), self.node()
                self.free[a] += [inside, b]
                self.part(part.part, inside, after)
                a = after
        self.free[a].append(b)


def _classes(sets: list[Ranges]) -> tuple[list[int], list[int], list[int]]:
    """(first characters of ranges, their classes, the sets of each class as bits)."""
    changes: dict[int, int] = {0: 0}
    for i, ranges in enumerate(sets):
        for low, high in ranges:
            changes[low] = changes.get(low, 0) ^ 1 << i
            changes[high + 1] = changes.get(high + 1, 0) ^ 1 << i
    known: dict[int, int] = {}
    lows, classes, inside = [], [], 0
    for low in sorted(changes):
        inside ^= changes[low]
        lows.append(low)
        classes.append(known.setdefault(inside, len(known)))
    return lows, classes, list(known)


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


class _Subsets:
    """States are (nodes as bits, whether nothing was read yet)."""

    def __init__(self, net: _Net, first: int, last: int, members: list[int]) -> None:
        self.net, self.first, self.members = net, first, members
        self.final = 1 << last
        self.known: dict[tuple[int, bool, bool], int] = {}
        self.steps = 0
        # Nodes that only lead on for free need not be told apart in a state.
        self.kept = self.final | sum(
            1 << i for i in range(len(net.free)) if net.moves[i] or net.ends[i]
        )
        self.with_ends = sum(1 << i for i, links in enumerate(net.ends) if links)

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise TooLarge

    def reach(self, node: int, at_start: bool, at_end: bool) -> int:
        """The nodes that are reached from this one without a character."""
        key = (node, at_start, at_end)
        found = self.known.get(key)
        if found is None:
            seen, open_ = 1 << node, [node]
            while open_:
                self.spend(1)
                n = open_.pop()
                links = self.net.free[n]
                if at_start:
                    links = links + self.net.starts[n]
                if at_end:
                    links = links + self.net.ends[n]
                for m in links:
                    if not seen >> m & 1:
                        seen |= 1 << m
                        open_.append(m)
            found = self.known[key] = seen & self.kept
        return found

    def build(self, lows: list[int], classes: list[int]) -> Automaton:
        width = len(self.members) + 1
        again = self.reach(self.first, False, False)
        states: dict[tuple[int, bool], int] = {(0, False): DEAD, (self.final, False): FOUND}
        rows: list[list[int]] = [[DEAD] * width, [FOUND] * width]
        waiting: list[tuple[int, bool]] = []

        def number(nodes: int, at_start: bool) -> int:
            if nodes & self.final:
                return FOUND
            key = (nodes, at_start)
            if key not in states:
                if len(states) >= MAX_STATES or len(states) * width > MAX_ENTRIES:
                    raise TooLarge
                states[key] = len(states)
                waiting.append(key)
            return states[key]

        start = number(self.reach(self.first, True, False), True)
        for nodes, at_start in waiting:
            row = [number(n | again, False) for n in self.after(nodes)]
            for node in _bits(nodes & self.with_ends):
                for target in self.net.ends[node]:
                    nodes |= self.reach(target, at_start, True)
            rows.append([*row, number(nodes, at_start)])
        table = np.array(rows, np.int32).reshape(-1) * np.int32(width)
        return Automaton(table, width, start * width, np.array(lows, np.int32),
                         np.array(classes, np.int32), self.with_ends != 0)  # fmt: skip

    def after(self, nodes: int) -> list[int]:
        """The nodes behind one character of each class."""
        reached: dict[int, int] = {}
        for node in _bits(nodes):
            for set_, target in self.net.moves[node]:
                self.spend(1)
                reached[set_] = reached.get(set_, 0) | self.reach(target, False, False)
        used = sum(1 << s for s in reached)
        found: dict[int, int] = {}
        out = []
        for member in self.members:
            self.spend(1)
            chosen = member & used
            if chosen not in found:
                nodes = 0
                for set_ in _bits(chosen):
                    self.spend(1)
                    nodes |= reached[set_]
                found[chosen] = nodes
            out.append(found[chosen])
        return out
