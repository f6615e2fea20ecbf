"""Character sets of both server families: codes, conversion tables, collation ids.

``tables.bin`` (xz of little-endian uint16) and ``collations.json`` were made from real servers by
``tests/values/make_charsets.py``, since other codecs differ from the servers in corners. The first
``MAX_CODES * ENTRY`` words are the directory: for each code its kind, 1 if it keeps ASCII, and the
offsets (two words each, low first) of the tables for one byte (256 words, by the byte), two bytes
(32768, by ``(b1 & 127) << 8 | b2``) and three bytes after 0x8F (32768, the same) or GB 18030's
four-byte BMP range. A word is a code point, 0 if unmapped.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MAX_CODES: Final = 64
ENTRY: Final = 8
GB18030_BMP: Final = 39420

KIND_UNKNOWN: Final = 0
KIND_UTF8: Final = 1
KIND_ASCII: Final = 2
KIND_BINARY: Final = 3
KIND_SINGLE: Final = 4
KIND_DOUBLE: Final = 5
KIND_TRIPLE: Final = 6
KIND_GB18030: Final = 7
KIND_UCS2: Final = 8
KIND_UTF16: Final = 9
KIND_UTF16LE: Final = 10
KIND_UTF32: Final = 11

# The place in this tuple is the code; tables.bin depends on the order.
NAMES: Final = tuple(
    "utf8mb4 utf8mb3 ascii binary latin1 latin2 latin5 latin7 cp1250 cp1251 cp1256 cp1257 cp850"
    " cp852 cp866 dec8 hp8 swe7 hebrew greek tis620 koi8r koi8u geostd8 armscii8 keybcs2 macce"
    " macroman big5 gbk gb2312 sjis cp932 euckr"
    " ujis eucjpms gb18030 ucs2 utf16 utf16le utf32".split()
)
KIND_BY_NAME: Final = {
    "utf8mb4": KIND_UTF8,
    "utf8mb3": KIND_UTF8,
    "ascii": KIND_ASCII,
    "binary": KIND_BINARY,
    **dict.fromkeys(("big5", "gbk", "gb2312", "sjis", "cp932", "euckr"), KIND_DOUBLE),
    "ujis": KIND_TRIPLE,
    "eucjpms": KIND_TRIPLE,
    "gb18030": KIND_GB18030,
    "ucs2": KIND_UCS2,
    "utf16": KIND_UTF16,
    "utf16le": KIND_UTF16LE,
    "utf32": KIND_UTF32,
}
"""Kinds of the character sets that are not KIND_SINGLE."""

_CODES: Final = {name: code for code, name in enumerate(NAMES)} | {"utf8": 1}


def charset_code(name: str) -> int | None:
    """Code of a character set by its name (``utf8`` is utf8mb3), None if there is none."""
    return _CODES.get(name.lower())


@lru_cache(maxsize=1)
def tables() -> npt.NDArray[np.uint16]:
    """The tables, read-only; the ``tables`` parameter of ``values.text.text``."""
    packed = (files(__package__) / "tables.bin").read_bytes()
    array = np.frombuffer(lzma.decompress(packed), dtype="<u2")
    array.setflags(write=False)
    return array


@lru_cache(maxsize=8)
def encoder(code: int) -> npt.NDArray[np.uint32]:
    """Bytes of each character below U+10000 as one big-endian number, read-only; 0: it has none.

    uint32[65536] for the kinds from KIND_SINGLE to KIND_GB18030, empty for those that need no
    table. Of several sequences for one character it has the one that the servers take.
    """
    words = tables()
    kind = int(words[code * ENTRY])
    if not KIND_SINGLE <= kind <= KIND_GB18030:
        return np.empty(0, np.uint32)
    made = np.zeros(1 << 16, np.uint32)
    for numbers, points in _stored(words, code, kind):
        # What tis620 and big5 do not have is U+FFFD in the servers' tables.
        mapped = (points != 0) & ((points != 0xFFFD) | (kind == KIND_GB18030))
        made[points[mapped]] = numbers[mapped]
    made.setflags(write=False)
    return made


def _stored(
    words: npt.NDArray[np.uint16], code: int, kind: int
) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[np.uint16]]]:
    """Sequences of bytes as numbers, and their characters; what comes later is to be preferred."""

    def table(word: int, size: int) -> npt.NDArray[np.uint16]:
        at = int(words[code * ENTRY + word]) | int(words[code * ENTRY + word + 1]) << 16
        return words[at : at + size]

    if kind == KIND_GB18030:
        v = np.arange(GB18030_BMP, dtype=np.uint32)
        tail = (0x81 + v // 10 % 126) << 8 | 0x30 + v % 10
        yield (0x81 + v // 12600) << 24 | (0x30 + v // 1260 % 10) << 16 | tail, table(6, len(v))
    # Of what is there twice the servers take the lowest; armscii8 has some of ASCII so.
    pair = np.arange((1 << 15) - 1, -1, -1, dtype=np.uint32)
    single = np.arange(255, -1, -1, dtype=np.uint32), table(2, 256)[::-1]
    if kind == KIND_TRIPLE:
        yield 0x8F8000 | pair, table(6, len(pair))[::-1]
    if code == _CODES["sjis"]:
        # The backslash is two bytes.
        yield single
    if kind != KIND_SINGLE:
        pairs = table(4, len(pair))[::-1]
        yield 0x8000 | pair, pairs
        if code == _CODES["cp932"]:
            # NEC's selection of IBM's characters comes last.
            others = (pair >> 8 < 0x6D) | (pair >> 8 > 0x6E)
            yield 0x8000 | pair[others], pairs[others]
    if code != _CODES["sjis"]:
        yield single


@lru_cache(maxsize=2)
def collations(family: str) -> dict[int, str]:
    """Character set name by collation id; ``family`` is ``mysql`` or ``mariadb``."""
    found = json.loads((files(__package__) / "collations.json").read_text())[family]
    return {number: charset for charset, numbers in found.items() for number in numbers}
