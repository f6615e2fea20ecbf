"""Weights and letter cases of collations, as both server families have them.

``weights.bin`` (xz) was made from real servers by ``tests/filter_expr/make_weights.py``. It holds
for each collation of ``NAMES`` a byte for each code point, the number of its weights, or IMPLICIT
plus the base of the two weights that are computed from the code point (most ideographs); then the
weights of the former ones as little-endian uint16. Contractions (UTS #10, 3.3.2), sequences of at
most 3 characters with weights of their own, follow the code points as if they were more of them,
and their characters follow the weights as int32, 0 behind short ones. Counts of weights and of
contractions come first, as uint32, and the 256 weights of latin1_swedish_ci last. ``cases.bin``
holds what LOWER and UPPER change, as pairs of code points, for each of ``CASES``; and latin1's 256
bytes of each.
"""

from __future__ import annotations

import lzma
from functools import lru_cache
from importlib.resources import files
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

CODE_POINTS: Final = 0x110000
IMPLICIT: Final = 0x80
IMPLICIT_BASES: Final = (0xFB40, 0xFB80, 0xFBC0)
LONGEST: Final = 3

# But for the last, without contractions: a text's weights are those of its characters in turn.
NAMES: Final = (
    "utf8mb4_general_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_0900_ai_ci",
    "utf8mb4_uca1400_ai_ci",
)
CASES: Final = ("general", "0900", "uca1400")


class Weights(NamedTuple):
    """Weights of the code point ``c`` are ``values[starts[c]:starts[c + 1]]``.

    Those of the contraction ``k`` are at ``c = CODE_POINTS + k``. ``starts``
    int32[CODE_POINTS + contractions + 1], ``values`` uint16, ``sequences`` int32[contractions,
    LONGEST] the characters of each contraction; all read-only.
    """

    starts: npt.NDArray[np.int32]
    values: npt.NDArray[np.uint16]
    sequences: npt.NDArray[np.int32]


class Packed(NamedTuple):
    """A collation as ``weights.bin`` has it: lengths, listed weights, contractions."""

    lengths: npt.NDArray[np.uint8]
    listed: npt.NDArray[np.uint16]
    sequences: npt.NDArray[np.int32]


def pack(parts: list[Packed], latin1: list[int]) -> bytes:
    """The content of ``weights.bin``."""
    counts = np.array([(len(p.listed), len(p.sequences)) for p in parts], "<u4")
    tables = [
        p.lengths.tobytes() + p.listed.astype("<u2").tobytes() + p.sequences.astype("<i4").tobytes()
        for p in parts
    ]
    return counts.tobytes() + b"".join(tables) + bytes(latin1)


@lru_cache(maxsize=1)
def _packed() -> bytes:
    return lzma.decompress((files(__package__) / "weights.bin").read_bytes())


def latin1_swedish_ci() -> npt.NDArray[np.uint8]:
    """The weight of each byte."""
    return np.frombuffer(_packed()[-256:], np.uint8)


def expand(packed: Packed) -> Weights:
    """The weights of all code points and contractions."""
    lengths, listed, sequences = packed
    computed = lengths >= IMPLICIT
    sizes = np.where(computed, 2, lengths).astype(np.int64)
    starts = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(sizes, out=starts[1:])
    values = np.empty(int(starts[-1]), np.uint16)
    from_list = np.repeat(~computed, sizes)
    values[from_list] = listed
    c = np.flatnonzero(computed)
    at = starts[c]
    bases = np.array(IMPLICIT_BASES, np.int64)[lengths[c] - IMPLICIT]
    values[at] = bases + (c >> 15)
    values[at + 1] = c & 0x7FFF | 0x8000
    for array in (starts, values, sequences):
        array.setflags(write=False)
    return Weights(starts, values, sequences)


def computed(found: Weights) -> npt.NDArray[np.bool_]:
    """For each code point whether its weights are computed from it (UTS #10, 10.1.3)."""
    points = np.arange(CODE_POINTS)
    at = found.starts[:CODE_POINTS]
    two = np.diff(found.starts[: CODE_POINTS + 1]) == 2
    first, second = (found.values[np.where(two, at + k, 0)] for k in range(2))
    own = np.isin(first - (points >> 15), IMPLICIT_BASES) & (second == (points & 0x7FFF | 0x8000))
    return np.asarray(two & own, np.bool_)


@lru_cache(maxsize=len(NAMES))
def weights(name: str) -> Weights:
    """The weights of a collation of ``NAMES``."""
    data = _packed()
    counts = np.frombuffer(data, "<u4", 2 * len(NAMES))
    at = counts.nbytes
    for known, (listed, contractions) in zip(NAMES, counts.reshape(-1, 2).tolist(), strict=True):
        size = CODE_POINTS + contractions
        if known == name:
            sequences = np.frombuffer(data, "<i4", LONGEST * contractions, at + size + 2 * listed)
            return expand(
                Packed(
                    np.frombuffer(data, np.uint8, size, at),
                    np.frombuffer(data, "<u2", listed, at + size),
                    sequences.astype(np.int32).reshape(-1, LONGEST),
                )
            )
        at += size + 2 * listed + 4 * LONGEST * contractions
    raise KeyError(name)


def pack_cases(parts: list[npt.NDArray[np.int32]], latin1: list[bytes]) -> bytes:
    """The content of ``cases.bin``: lower and upper of each of ``CASES``."""
    counts = np.array([len(part) for part in parts], "<u4")
    tables = [part.astype("<i4").tobytes() for part in parts]
    return counts.tobytes() + b"".join(tables) + b"".join(latin1)


@lru_cache(maxsize=1)
def _cases() -> bytes:
    return lzma.decompress((files(__package__) / "cases.bin").read_bytes())


@lru_cache(maxsize=2 * len(CASES))
def cases(lower: bool, family: str) -> npt.NDArray[np.int32]:
    """The code point that each one becomes; ``family`` is one of ``CASES``."""
    data = _cases()
    counts = np.frombuffer(data, "<u4", 2 * len(CASES)).tolist()
    wanted = 2 * CASES.index(family) + (0 if lower else 1)
    at = 4 * len(counts) + 8 * sum(counts[:wanted])
    pairs = np.frombuffer(data, "<i4", 2 * counts[wanted], at).reshape(-1, 2)
    found = np.arange(CODE_POINTS, dtype=np.int32)
    found[pairs[:, 0]] = pairs[:, 1]
    found.setflags(write=False)
    return found


def latin1_cases(lower: bool) -> npt.NDArray[np.uint8]:
    """The byte that each byte of latin1 becomes."""
    at = len(_cases()) - 512 + (0 if lower else 256)
    return np.frombuffer(_cases(), np.uint8, 256, at)
