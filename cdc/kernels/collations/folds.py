"""Which characters are one letter to regular expressions that ignore case.

That is Unicode's case folding, not a collation: ICU (MySQL) and PCRE2 (MariaDB) bring tables of
their own, and a newer library knows more pairs. ``folds.bin`` (xz of little-endian int32) was made
from real servers by ``tests/filter_expr/make_folds.py``. It holds three counts; (character, least
character of its class) for each class that every server measured had and whose characters are all
in Unicode 9, the oldest table of a server that is taken; the characters whose class differed or is
younger; and (character, up to three characters, 0 where none) of Unicode's full case folding.
"""

from __future__ import annotations

import lzma
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Folds(NamedTuple):
    """``first`` and ``members`` are the classes, ``unsettled`` what no table can say for all.

    ``first`` gives the least character of the class of each that has company, ``members`` the class
    of that least one, ``full`` the two or three characters that a character is when folded in full.
    """

    first: dict[int, int]
    members: dict[int, tuple[int, ...]]
    unsettled: frozenset[int]
    full: dict[int, tuple[int, ...]]


def pack(
    pairs: npt.NDArray[np.int32], unsettled: npt.NDArray[np.int32], full: npt.NDArray[np.int32]
) -> bytes:
    """The content of ``folds.bin``, not yet compressed: int32[n, 2], int32[n], int32[n, 4]."""
    counts = np.array([len(pairs), len(unsettled), len(full)], "<i4")
    return b"".join(part.astype("<i4").tobytes() for part in (counts, pairs, unsettled, full))


@lru_cache(maxsize=1)
def folds() -> Folds:
    """The tables."""
    packed = lzma.decompress((files(__package__) / "folds.bin").read_bytes())
    found = np.frombuffer(packed, "<i4")
    a, b, c = found[:3].tolist()
    pairs = found[3 : 3 + 2 * a].reshape(-1, 2).tolist()
    unsettled = found[3 + 2 * a : 3 + 2 * a + b].tolist()
    full = found[3 + 2 * a + b : 3 + 2 * a + b + 4 * c].reshape(-1, 4).tolist()
    members: dict[int, tuple[int, ...]] = {}
    for character, first in pairs:
        members[first] = (*members.get(first, ()), character)
    return Folds(
        dict(pairs),
        members,
        frozenset(unsettled),
        {character: tuple(p for p in parts if p) for character, *parts in full},
    )
