"""Which collations are evaluated, and the tables that their kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from cdc.kernels import expr_text
from cdc.kernels.charsets import ENTRY, KIND_BY_NAME, charset_code
from cdc.kernels.charsets import NAMES as CHARSETS
from cdc.kernels.charsets import tables as charset_tables
from cdc.kernels.collations import Weights, computed, latin1_swedish_ci, weights
from cdc.kernels.collations.trie import NO_CONTRACTIONS, Trie, trie
from cdc.schema.session import Session

UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8"})
# Single-byte character sets, and ascii: their _bin compares bytes.
SINGLE = frozenset(name for name in CHARSETS if name not in KIND_BY_NAME) | {"ascii"}

_NO_BYTES = np.empty(0, np.uint8)
_NO_STARTS = np.empty(0, np.int32)
_NO_WEIGHTS = np.empty(0, np.uint16)
_WEIGHTED = {
    "general_ci": "utf8mb4_general_ci",
    "unicode_ci": "utf8mb4_unicode_ci",
    "0900_ai_ci": "utf8mb4_0900_ai_ci",
    "uca1400_ai_ci": "utf8mb4_uca1400_ai_ci",
    "uca1400_nopad_ai_ci": "utf8mb4_uca1400_ai_ci",
}
# MariaDB 11.4 takes these names of MySQL for collations of its own.
_ALIASES = {
    "utf8mb4_0900_ai_ci": "utf8mb4_uca1400_nopad_ai_ci",
    "utf8mb4_0900_bin": "utf8mb4_bin",
}


@dataclass(frozen=True, slots=True)
class Collation:
    """What ``cdc.kernels.expr_text`` takes; ``pad`` is -1 where spaces at the end count.

    ``table`` is that of bytes, or of pages for LIKE.
    With ``contractions``, texts are compared by ``cdc.kernels.expr_contractions``. LIKE takes
    characters one by one under any collation.
    """

    name: str
    kind: int
    pad: int
    table: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int32]
    weights: npt.NDArray[np.uint16]
    contractions: Trie = NO_CONTRACTIONS


def own_name(name: str, session: Session) -> str:
    """The collation that a server means by a name."""
    return _ALIASES.get(name, name) if session.mariadb else name


def _stem(charset: str, collation: str) -> str:
    for prefix in (charset, "utf8mb3" if charset == "utf8" else "utf8"):
        if collation.startswith(prefix + "_"):
            return collation[len(prefix) + 1 :]
    return ""


def supported(charset: str, collation: str) -> bool:
    """Whether text of this character set and collation is compared exactly."""
    if charset == "binary":
        return True
    stem = _stem(charset, collation)
    if charset in UTF8:
        return stem in _WEIGHTED or stem in ("bin", "0900_bin")
    if charset in SINGLE:
        return stem == "bin" or collation == "latin1_swedish_ci"
    return False


@lru_cache(maxsize=64)
def collation(charset: str, name: str) -> Collation:
    """The tables of a supported collation."""
    if charset == "binary":
        return Collation(name, expr_text.BYTES_ONLY, -1, _NO_BYTES, _NO_STARTS, _NO_WEIGHTS)
    stem = _stem(charset, name)
    if charset in UTF8:
        if stem in ("bin", "0900_bin"):
            pad = 32 if stem == "bin" else -1
            return Collation(name, expr_text.UTF8_BIN, pad, _NO_BYTES, _NO_STARTS, _NO_WEIGHTS)
        found, alone, contractions = _tables(stem)
        unpadded = stem.startswith("0900") or "nopad" in stem
        pad = -1 if unpadded else int(found.values[found.starts[32]])
        kind = expr_text.UTF8_WEIGHTS
        values = found.values
        if stem == "general_ci":
            # No weight is ignored there, not even the 0 of U+0000. No letter has the weight of a
            # small a, so all before it can move up.
            values, pad = values + (values < ord("a")), pad + 1
        return Collation(name, kind, pad, alone, found.starts, values, contractions)
    if stem == "bin":
        return Collation(name, expr_text.BYTES_ONLY, 32, _NO_BYTES, _NO_STARTS, _NO_WEIGHTS)
    table = latin1_swedish_ci()
    return Collation(name, expr_text.BYTE_TABLE, int(table[32]), table, _NO_STARTS, _NO_WEIGHTS)


@lru_cache(maxsize=len(_WEIGHTED))
def _tables(stem: str) -> tuple[Weights, npt.NDArray[np.uint8], Trie]:
    found = weights(_WEIGHTED[stem])
    return found, _alone(stem, found), trie(found)


def _alone(stem: str, found: Weights) -> npt.NDArray[np.uint8]:
    """The pages whose characters are like none but themselves, whatever their weights.

    Both families keep tables of weights by page, and LIKE compares code points where a page has
    none: where all weights are computed, such as those of ideographs, and of Hangul under MySQL's
    0900; and unicode_ci has no tables beyond the BMP.
    """
    whole = np.asarray(computed(found).reshape(-1, 256).all(axis=1))
    pages = whole.astype(np.uint8)
    if stem.startswith("0900"):
        pages[0xAC:0xD7] = 1
    if stem == "unicode_ci":
        pages[0x100:] = 1
    return pages


def connection_collation(session: Session) -> str:
    """The collation of literals: the default of utf8mb4 on that server."""
    if not session.mariadb and session.version >= (8, 0, 1):
        return "utf8mb4_0900_ai_ci"
    if session.mariadb and session.version >= (11, 5, 0):
        return "utf8mb4_uca1400_ai_ci"
    return "utf8mb4_general_ci"


def encode(text: str, charset: str) -> bytes | None:
    """Bytes of a text in a supported character set; None if it does not have all characters."""
    if charset in UTF8 or charset == "binary":
        if charset not in ("utf8mb4", "binary") and any(ord(c) > 0xFFFF for c in text):
            return None
        try:
            return text.encode()
        except UnicodeEncodeError:
            return None
    if charset == "ascii":
        return text.encode() if text.isascii() else None
    known = _bytes_of(charset)
    found = [known.get(ord(c), -1) for c in text]
    return None if -1 in found else bytes(found)


@lru_cache(maxsize=32)
def _bytes_of(charset: str) -> dict[int, int]:
    """The byte of each code point of a single-byte character set."""
    tables = charset_tables()
    code = charset_code(charset)
    assert code is not None
    at = int(tables[code * ENTRY + 2]) | int(tables[code * ENTRY + 3]) << 16
    points = tables[at : at + 256].tolist()
    return {c: b for b, c in reversed(list(enumerate(points))) if c or not b}
