"""Finds the contractions of a collation by asking a server for weights of texts.

A contraction shows where the weights of a text are not those of its characters in turn. Asked were,
of the letters (code points with weights of their own, and one of 101 of those whose weights are
computed from the code point): every ordered pair; every letter behind and in front of each
contraction of two; every three of one block of 256 code points that has marks or contractions; and
every three of characters that take part in some contraction. What is found is foretold from then
on, and at the end the weights of all texts that were asked are foretold to the last bit.
"""

from __future__ import annotations

import hashlib
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np
from numba import njit

from cdc.kernels.collations import CODE_POINTS, LONGEST, Packed, Weights, expand
from cdc.kernels.collations.trie import Trie, trie
from cdc.kernels.expr_contractions import _next_weight

Found = dict[tuple[int, ...], list[int]]
_PLACE = "\ue000"
# Texts of one statement, and characters of each.
_AT_ONCE = 200
_ROOM = 8_000
_EVERY = 101


@njit  # type: ignore[untyped-decorator]
def weigh(buf, end, starts, values, children, following, nodes, whole, out):  # type: ignore[no-untyped-def]
    """Write the weights of a text to ``out``; returns how many."""
    p = w = stop = np.int64(0)
    size = 0
    while True:
        v, p, w, stop = _next_weight(
            buf, p, end, w, stop, starts, values, children, following, nodes, whole
        )
        if v < 0:
            return size
        out[size] = v
        size += 1


def with_contractions(plain: Packed, found: Found) -> Packed:
    """A collation of characters with these contractions, in the order of their characters."""
    known = sorted(found)
    sequences = np.zeros((len(known), LONGEST), np.int32)
    for k, sequence in enumerate(known):
        sequences[k, : len(sequence)] = sequence
    return Packed(
        np.concatenate([plain.lengths, np.array([len(found[s]) for s in known], np.uint8)]),
        np.concatenate([plain.listed, np.array([w for s in known for w in found[s]], np.uint16)]),
        sequences,
    )


class Search:
    """What is known of a collation, and questions to its server."""

    def __init__(self, cursor: Any, collation: str, plain: Packed) -> None:
        self.cursor, self.collation, self.plain = cursor, collation, plain
        self.found: Found = {}
        self.asked = 0
        self._learn({})
        cursor.execute("set names utf8mb4 collate utf8mb4_bin")
        cursor.execute(
            "create temporary table texts (i int primary key, s varchar(16)) charset utf8mb4"
        )

    def _learn(self, more: Found) -> None:
        self.found.update(more)
        self.weights: Weights = expand(with_contractions(self.plain, self.found))
        self.trie: Trie = trie(self.weights)
        if not self.found:
            none = np.empty(0, np.int32)
            self.trie = Trie(np.zeros(CODE_POINTS + 2, np.uint16), none, none, CODE_POINTS)

    def foretold(self, text: bytes) -> bytes:
        """The weights of a text as far as contractions are known."""
        out = np.empty(8 * len(text) + 8, np.uint16)
        buf = np.frombuffer(text + bytes(16), np.uint8)
        size = weigh(buf, len(text), self.weights.starts, self.weights.values, *self.trie, out)
        return out[:size].astype(">u2").tobytes()

    def unforetold(self, texts: list[str]) -> Found:
        """The weights of those texts that have others than foretold."""
        self.cursor.execute("truncate texts")
        self.cursor.executemany("insert into texts values (%s, %s)", list(enumerate(texts)))
        self.cursor.execute(
            f"select weight_string(s collate {self.collation}) from texts order by i"
        )
        told = [weights for (weights,) in self.cursor.fetchall()]
        return {
            tuple(map(ord, text)): np.frombuffer(weights, ">u2").tolist()
            for text, weights in zip(texts, told, strict=True)
            if weights != self.foretold(text.encode())
        }

    def surprising(self, begins: list[str], tails: list[str]) -> Iterator[tuple[str, list[str]]]:
        """Begins that have other weights than foretold between some tails, and these."""
        size = max(1, _ROOM // (len(begins[0]) + len(tails[0])))
        for part in (tails[j : j + size] for j in range(0, len(tails), size)):
            text = "".join(_PLACE + tail for tail in part) + _PLACE
            for i in range(0, len(begins), _AT_ONCE):
                some = begins[i : i + _AT_ONCE]
                asked = [text.replace(_PLACE, begin) for begin in some]
                self.asked += sum(map(len, asked))
                texts = [one.encode() for one in asked]
                self.cursor.execute(b"select " + b", ".join(map(self._question, texts)))
                for begin, whole, digest in zip(some, texts, self.cursor.fetchone(), strict=True):
                    if hashlib.md5(self.foretold(whole)).hexdigest() != digest:
                        yield begin, part

    def _question(self, text: bytes) -> bytes:
        quoted = text.replace(b"\\", b"\\\\").replace(b"'", b"\\'")
        return b"md5(weight_string('%s' collate %s))" % (quoted, self.collation.encode())

    def settle(self, begins: Iterable[str], tails: Iterable[str]) -> int:
        """Learn the contractions among begins and tails, in both orders; returns how many."""
        before = len(self.found)
        some, last = list(begins), list(tails)
        seen = []
        for begin, part in self.surprising(some, last):
            seen.append(begin)
            whole = self.unforetold([begin + tail + begin for tail in part])
            ends = [t for t in part if tuple(map(ord, begin + t + begin)) in whole]
            for order in (
                [begin + tail for tail in ends] + [tail + begin for tail in ends],
                [begin + tail + begin for tail in ends],
            ):
                short = [text for text in dict.fromkeys(order) if len(text) <= LONGEST]
                self._learn(self.unforetold(short) if short else {})
        if seen:
            assert not list(self.surprising(seen, last)), "a contraction of more characters"
        return len(self.found) - before


def search(cursor: Any, collation: str, plain: Packed) -> Found:
    """All contractions of a collation, with their weights."""
    one = Search(cursor, collation, plain)
    letters = [chr(c) for c in _letters(plain)]
    for i in range(0, len(letters), 1024):
        # Each is asked in both orders.
        count = one.settle(letters[i : i + 1024], letters[i:])
        _say(one, f"pairs from {ord(letters[i]):04X}", count)
    pairs = ["".join(map(chr, s)) for s in one.found if len(s) == 2]
    _say(one, "behind contractions", one.settle(pairs, letters))
    _say(one, "before contractions", one.settle(letters, pairs))
    marked = [c for c in letters if unicodedata.category(c)[0] == "M"]
    marked += [chr(c) for s in one.found for c in s]
    for block in sorted({ord(c) >> 8 for c in marked}):
        near = [c for c in letters if ord(c) >> 8 == block]
        count = one.settle(("".join(p) for p in product(near, near)), near)
        _say(one, f"triples of {block << 8:04X}", count)
    parts = sorted({chr(c) for s in one.found for c in s})
    _say(one, "triples", one.settle(("".join(p) for p in product(parts, parts)), parts))
    return one.found


def _letters(plain: Packed) -> list[int]:
    weights = expand(plain)
    starts, values = weights.starts, weights.values
    first = values[np.minimum(starts[:-1], len(values) - 1)]
    sizes = np.diff(starts)
    points = np.arange(CODE_POINTS)
    character = (points < 0xD800) | (points > 0xDFFF)
    implicit = (first >= 0xFB00) & (first < 0xFC00) & (sizes == 2)
    chosen = character & np.where(implicit, points % _EVERY == 0, points != ord(_PLACE))
    # Of what no character has, a thousandth is enough.
    chosen &= ~implicit | (first < 0xFBC0) | (points % 1009 == 0)
    return np.flatnonzero(chosen).tolist()


def _say(one: Search, what: str, count: int) -> None:
    asked = f"{one.asked / 1e6:.0f} million characters asked"
    print(f"{time.strftime('%H:%M:%S')} {what}: {count} more, {asked}", file=sys.stderr, flush=True)
