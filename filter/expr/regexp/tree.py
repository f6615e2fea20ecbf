"""A regular expression as it is searched for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from filter.expr.regexp.points import Ranges


@dataclass(frozen=True, slots=True)
class Chain:
    """One character of each set, one after the other.

    ``jumps`` are (from, to, characters): one character in place of the sets from there to there.
    """

    sets: tuple[Ranges, ...]
    jumps: tuple[tuple[int, int, Ranges], ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """``^`` or, with ``end``, ``$``."""

    end: bool


@dataclass(frozen=True, slots=True)
class Joined:
    """One after the other; none is the empty text."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of them."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``least`` to ``most`` times; None is any number."""

    part: Part
    least: int
    most: int | None


Part: TypeAlias = Chain | Edge | Joined | Choice | Repeat


def may_be_empty(part: Part) -> bool:
    """Whether it can match no character at all."""
    if isinstance(part, Chain):
        return False
    if isinstance(part, Choice):
        return any(may_be_empty(p) for p in part.parts)
    if isinstance(part, Joined):
        return all(may_be_empty(p) for p in part.parts)
    return isinstance(part, Edge) or part.least == 0 or may_be_empty(part.part)
