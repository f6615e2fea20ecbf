"""Rows as the server's own tool prints them (``mysqlbinlog -vv``), and our values in its form."""

from __future__ import annotations

import calendar
import ipaddress
import json
import re
import struct
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np

_ROW = re.compile(rb"### INSERT INTO `[^`]+`\.`([^`]+)`$", re.M)
_VALUE = re.compile(rb"^###   @2=(.*) /\* (.*) meta=\d+ nullable=\d is_null=\d \*/$", re.M)
_UNDEFINED = b"!! Don't know how to handle"
_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.S)
_ESCAPED = {b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"f": b"\f", b"0": b"\0"}
# What Python calls the character sets of the cases.
_CODECS = {
    "latin1": "cp1252", "gbk": "gbk", "sjis": "shift_jis", "utf16": "utf-16-be",
    "ucs2": "utf-16-be", "ascii": "ascii",
}  # fmt: skip


def tool_values(server: Any, path: Path) -> dict[str, list[tuple[bytes, str] | None]]:
    """(value, type as the tool names it) of column 2 of every INSERT, by table.

    None where the tool says that it cannot print the type.
    """
    command = [*server.tool("mysqlbinlog"), "--base64-output=decode-rows", "-vv", str(path)]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    parts = _ROW.split(done.stdout)
    found: dict[str, list[tuple[bytes, str] | None]] = {}
    for table, text in zip(parts[1::2], parts[2::2], strict=True):
        values = found.setdefault(table.decode(), [])
        value = _VALUE.search(text)
        if value is None:
            assert _UNDEFINED in text, text[:300]
            values.append(None)
        else:
            values.append((value[1], value[2].decode()))
    return found


def in_tools_form(value: str | None, kind: str, shown_type: str, mariadb: bool) -> bytes:
    """Our text of a value of an SQL type as the tool prints its own reading of the image."""
    if value is None:
        return b"NULL"
    name = re.split(r"[( ]", shown_type)[0]
    if name in ("TINYINT", "SHORTINT", "MEDIUMINT", "INT", "LONGINT"):
        return _integer(
            int(value), {"TINYINT": 8, "SHORTINT": 16, "MEDIUMINT": 24, "INT": 32}.get(name, 64)
        )
    if name == "FLOAT":
        return b"%-20b" % f"{np.float32(value):g}".encode()
    if name == "DOUBLE":
        return f"{float(value):.20g}".encode()
    if name == "BIT":
        width = int(shown_type[4:-1])
        return f"b'{int(value):0{width}b}'".encode()
    if name == "SET":
        return f"b'{int(value):08b}'".encode()
    if name == "DATE":
        return f"'{value.replace('-', ':')}'".encode()
    if name == "YEAR":
        return str(int(value) or 1900).encode()
    if name == "TIMESTAMP":
        return _instant(value)
    if name in ("TIME", "DATETIME"):
        return f"'{value}'".encode()
    if name in ("DECIMAL", "ENUM"):
        return value.encode()
    if name == "VECTOR":
        return ("[" + ",".join(f"{x:.5e}" for x in json.loads(value)) + "]").encode()
    if name == "JSON" and value.startswith('"'):
        # A document that is one string is printed without its own quotes.
        value = json.loads(value)
    return _quoted(_bytes(value, kind), mariadb)


def _integer(value: int, bits: int) -> bytes:
    # Without knowing the sign the tool prints both readings of a number with the highest bit set.
    if value >> (bits - 1) & 1 == 0:
        return str(value).encode()
    low = value & ((1 << bits) - 1)
    return f"{low - (1 << bits)} ({low})".encode()


def _instant(value: str) -> bytes:
    whole, dot, fraction = value.partition(".")
    if whole.startswith("0000"):
        return f"0{dot}{fraction}".encode()
    seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%d %H:%M:%S"))
    return f"{seconds}{dot}{fraction}".encode()


def _bytes(value: str, kind: str) -> bytes:
    """What the row image holds, by Python's own codecs and parsers."""
    if kind == "uuid":
        return uuid.UUID(value).bytes.rstrip(b"\0")
    if kind in ("inet4", "inet6"):
        return ipaddress.ip_address(value).packed.rstrip(b"\0")
    if kind.startswith("vector"):
        numbers = json.loads(value)
        return struct.pack(f"<{len(numbers)}f", *numbers)
    if kind.startswith("binary"):
        return value.encode("latin-1").rstrip(b"\0")
    if kind.startswith(("varbinary", "geometry", "point")) or "blob" in kind:
        return value.encode("latin-1")
    charset = kind.partition("character set ")[2]
    return value.encode(_CODECS.get(charset, "utf-8"))


def _quoted(data: bytes, mariadb: bool) -> bytes:
    # MariaDB's tool escapes control characters only, MySQL's the backslash and quote too.
    out = bytearray()
    for byte in data:
        if byte < 0x20:
            out += b"\\x%02x" % byte
        elif not mariadb and byte in b"\\'":
            out += b"\\" + bytes([byte])
        else:
            out.append(byte)
    return b"'" + bytes(out) + b"'"


def normal(shown: bytes) -> bytes:
    """MySQL's short escapes as ``\\xNN``, so that one form is compared."""

    def long_form(found: re.Match[bytes]) -> bytes:
        escaped = _ESCAPED.get(found[1])
        return found[0] if escaped is None else b"\\x%02x" % escaped[0]

    return _ESCAPE.sub(long_form, shown)
