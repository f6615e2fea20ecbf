"""Character sets and collations by name and id, per server family.

``collations.json`` was read from ``information_schema`` of MySQL 8.0 and 9.7 and MariaDB 10.11 to
11.8; ``utf8`` is written ``utf8mb3`` in it, as newer servers do.
"""

from __future__ import annotations

import codecs
import json
from functools import cache
from importlib.resources import files
from typing import Any

from cdc.schema.session import Session

# Python's names where they are not the server's.
_CODECS = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "latin1": "cp1252",
    "binary": "utf-8",
    "ujis": "euc_jp",
    "sjis": "shift_jis",
    "euckr": "cp949",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "gb18030": "gb18030",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "tis620": "tis_620",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
    "ucs2": "utf_16_be",
    "big5": "cp950",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "eucjpms": "euc_jp",
    "macroman": "mac_roman",
    "macce": "mac_latin2",
}


@cache
def _data(mariadb: bool) -> dict[str, Any]:
    text = files("cdc.schema").joinpath("collations.json").read_text()
    data: dict[str, Any] = json.loads(text)["mariadb" if mariadb else "mysql"]
    return data


@cache
def _charset_by_collation(mariadb: bool) -> dict[str, str]:
    known = sorted(_data(mariadb)["charsets"], key=len)
    found: dict[str, str] = {}
    for collation in _data(mariadb)["ids"].values():
        for charset in known:
            if collation == charset or collation.startswith(f"{charset}_"):
                found[collation] = charset
    return found


def collation_of_id(number: int, session: Session) -> str | None:
    """Name of a collation id; None if it is not known."""
    name: str | None = _data(session.mariadb)["ids"].get(str(number))
    return name


def normal_charset(charset: str) -> str:
    """``utf8`` is an alias of ``utf8mb3`` on every server that we read."""
    name = charset.lower()
    return "utf8mb3" if name == "utf8" else name


def normal_collation(collation: str) -> str:
    """The same for a collation: ``utf8_bin`` is ``utf8mb3_bin``."""
    name = collation.lower()
    return f"utf8mb3_{name[5:]}" if name.startswith("utf8_") else name


def charset_of_collation(collation: str, session: Session | None = None) -> str | None:
    """Character set that a collation belongs to; None if the name does not say.

    MariaDB's short ``uca1400_*`` names belong to whichever Unicode charset the column has.
    """
    name = normal_collation(collation)
    if session is not None:
        found = _charset_by_collation(session.mariadb).get(name)
        if found is not None:
            return found
    if name == "binary":
        return "binary"
    head = name.partition("_")[0]
    return None if head == "uca1400" else head


def full_collation(collation: str, charset: str) -> str:
    """The full name: MariaDB's ``uca1400_ai_ci`` in utf8mb4 is ``utf8mb4_uca1400_ai_ci``."""
    name = normal_collation(collation)
    return f"{charset}_{name}" if name.startswith("uca1400") else name


def default_collation(charset: str, session: Session) -> str:
    """The collation that ``CHARACTER SET charset`` alone means in this session."""
    chosen = dict(session.charset_collations).get(charset)
    if chosen is not None:
        return chosen
    if charset == "utf8mb4" and not session.mariadb:
        if session.default_collation_utf8mb4:
            return session.default_collation_utf8mb4
        if session.version < (8, 0, 1):
            return "utf8mb4_general_ci"
    known = _data(session.mariadb)["charsets"].get(charset)
    return known[1] if known else f"{charset}_general_ci"


def charset_default(charset: str, collation: str, session: Session) -> tuple[str, str]:
    """What CHARACTER SET DEFAULT means where the default is this pair.

    Newer MariaDB takes the character set alone, with the collation that it was built with.
    """
    if session.mariadb and session.version >= (10, 9):
        known = _data(True)["charsets"].get(charset)
        return charset, known[1] if known else collation
    return charset, collation


def bytes_per_character(charset: str | None, session: Session) -> int:
    """The most bytes that a character takes; 1 where there is no charset."""
    if charset is None:
        return 1
    known = _data(session.mariadb)["charsets"].get(charset)
    return int(known[0]) if known else 4


def codec_of(charset: str) -> str:
    """Python's codec of a character set; ``LookupError`` if it has none."""
    return codecs.lookup(_CODECS.get(charset, charset)).name


# Every byte of a text that is none in its character set becomes this and the byte.
_NO_TEXT = 0xDC00


def decode(raw: bytes, charset: str) -> str:
    """Bytes of a character set as text; where they are no text, all become U+DC00 and on."""
    try:
        if charset == "latin1":
            # The server's latin1 is cp1252 with its five holes filled.
            return "".join(_latin1(byte) for byte in raw)
        return raw.decode(codec_of(charset))
    except (LookupError, UnicodeDecodeError):
        return of_bytes(raw)


def of_bytes(raw: bytes) -> str:
    """Bytes whose character set is not known, in the form that :func:`encode` takes."""
    return "".join(chr(_NO_TEXT + byte) for byte in raw)


def encode(text: str, charset: str) -> bytes:
    """The bytes of :func:`decode`; what the character set does not have becomes ``?``."""
    if is_no_text(text):
        return bytes(ord(ch) - _NO_TEXT for ch in text)
    if charset == "latin1":
        return b"".join(
            bytes([ord(ch)]) if ch in _LATIN1_HOLES else ch.encode("cp1252", "replace")
            for ch in text
        )
    try:
        return text.encode(codec_of(charset), "replace")
    except LookupError:
        return text.encode()


def is_no_text(text: str) -> bool:
    """Whether it is what :func:`decode` makes of bytes that are no text."""
    return bool(text) and _NO_TEXT <= ord(text[0]) <= _NO_TEXT + 255


_LATIN1_HOLES = "\x81\x8d\x8f\x90\x9d"


def _latin1(byte: int) -> str:
    ch = chr(byte)
    return ch if ch in _LATIN1_HOLES else bytes([byte]).decode("cp1252")


def stored_text(text: str, charset: str) -> str:
    """What is left of a text in a character set: what it does not have becomes ``?``."""
    if charset in ("utf8mb4", "utf8mb3", "binary") or text.isascii():
        return text
    try:
        codec = codec_of(charset)
    except LookupError:
        return text
    return text.encode(codec, "replace").decode(codec)
