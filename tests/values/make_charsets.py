"""Makes cdc/kernels/charsets/{tables.bin,collations.json} from real servers.

    python -m tests.values.make_charsets SOCKET_OF_MYSQL_8_OR_9 SOCKET_OF_MARIADB_11

A byte sequence is mapped if the server converts it to exactly one character that is not ``?``.
MySQL 8.0.33 and 9.7.4, MariaDB 11.4.5 and 11.8.6 gave the same tables.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pymysql

from cdc.kernels.charsets import (
    ENTRY,
    GB18030_BMP,
    KIND_BY_NAME,
    KIND_DOUBLE,
    KIND_GB18030,
    KIND_SINGLE,
    KIND_TRIPLE,
    MAX_CODES,
    NAMES,
)

FOLDER = Path(__file__).parents[2] / "cdc" / "kernels" / "charsets"


def numbers(cursor: Any) -> None:
    """A temporary table n(i) with 0..65535."""
    cursor.execute("create database if not exists charset_tables")
    cursor.execute("use charset_tables")
    cursor.execute("create table n(i int primary key)")
    cursor.execute("insert into n values(0)")
    for k in range(16):
        cursor.execute(f"insert into n select i + {1 << k} from n")


def converted(cursor: Any, charset: str, bytes_sql: str, count: int, first: int = 0) -> np.ndarray:
    """Code points of ``bytes_sql`` (over i) for i in first..first+count-1; 0 where not mapped."""
    cursor.execute(
        f"select i - {first}, hex(convert(convert({bytes_sql} using {charset}) using utf8mb4))"
        " from n"
        f" where i >= {first} and i < {first + count}"
    )
    table = np.zeros(count, dtype=np.uint16)
    for i, text in cursor.fetchall():
        decoded = bytes.fromhex(text or "").decode("utf8", "replace")
        if len(decoded) == 1 and (decoded != "?" or i == 63):
            table[i] = ord(decoded)
    return table


def charset_tables(cursor: Any) -> np.ndarray:
    """One uint16 array: ``MAX_CODES`` entries of ``ENTRY`` words, then their tables."""
    head = np.zeros(MAX_CODES * ENTRY, dtype=np.uint16)
    parts, size = [head], head.size

    def put(code: int, word: int, table: np.ndarray) -> None:
        nonlocal size
        head[code * ENTRY + word : code * ENTRY + word + 2] = size & 0xFFFF, size >> 16
        parts.append(table)
        size += table.size

    two = "unhex(lpad(hex(i), 4, '0'))"
    for code, name in enumerate(NAMES):
        kind = KIND_BY_NAME.get(name, KIND_SINGLE)
        head[code * ENTRY] = kind
        if kind not in (KIND_SINGLE, KIND_DOUBLE, KIND_TRIPLE, KIND_GB18030):
            continue
        single = converted(cursor, name, "unhex(lpad(hex(i), 2, '0'))", 256)
        head[code * ENTRY + 1] = int((single[:127] == np.arange(127)).all())
        put(code, 2, single)
        if kind != KIND_SINGLE:
            put(code, 4, converted(cursor, name, two, 32768, 32768))
        if kind == KIND_TRIPLE:
            put(code, 6, converted(cursor, name, f"concat(x'8F', {two})", 32768, 32768))
        if kind == KIND_GB18030:
            four = (
                "char(129 + i div 12600, 48 + i div 1260 % 10, 129 + i div 10 % 126, 48 + i % 10)"
            )
            put(code, 6, converted(cursor, name, four, GB18030_BMP))
    return np.concatenate(parts)


def main() -> None:
    mysql, mariadb = (
        pymysql.connect(unix_socket=path, user="root", autocommit=True).cursor()
        for path in sys.argv[1:3]
    )
    numbers(mysql)
    raw = charset_tables(mysql).astype("<u2").tobytes()
    (FOLDER / "tables.bin").write_bytes(lzma.compress(raw, preset=9))
    mysql.execute("drop database charset_tables")
    found: dict[str, dict[str, list[int]]] = {}
    for family, cursor, view in (
        ("mysql", mysql, "collations"),
        ("mariadb", mariadb, "collation_character_set_applicability"),
    ):
        cursor.execute(f"select character_set_name, id from information_schema.{view} order by id")
        for charset, number in cursor.fetchall():
            found.setdefault(family, {}).setdefault(charset, []).append(number)
    lines = json.dumps(found, separators=(",", ":")).replace('],"', '],\n"')
    (FOLDER / "collations.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
