"""Makes cdc/kernels/collations/{weights,cases}.bin from real servers.

    python -m tests.filter_expr.make_weights SOCKET_OF_MYSQL_8_OR_9 SOCKET_OF_MARIADB_11_8

WEIGHT_STRING of every code point, alone. MySQL 8.0.33 and MariaDB 11.4.5 gave the same weights for
every collation that both have, and MariaDB 10.11.19, 11.4.5 and 11.8.6 for uca1400_ai_ci, with and
without PAD SPACE; the weights of the longest expansions were also read in front of other
characters, as the function cuts its result. ``find_contractions`` asked for 3,024 million
characters of texts and found the 939 contractions that are those of DUCET 13.0 too. LOWER and UPPER
are those of MySQL 8.0, whose collations before 0900 change as MariaDB's do, and for uca1400 those
of MariaDB, in all three versions.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pymysql

from cdc.kernels.collations import (
    CODE_POINTS,
    IMPLICIT,
    IMPLICIT_BASES,
    LONGEST,
    NAMES,
    Packed,
    pack,
    pack_cases,
)
from tests.filter_expr.find_contractions import search, with_contractions

FOLDER = Path(__file__).parents[2] / "cdc" / "kernels" / "collations"


def numbers(cursor: Any) -> None:
    """A table n(i) with 0..65535."""
    cursor.execute("create database if not exists weight_tables")
    cursor.execute("use weight_tables")
    cursor.execute("create table n(i int primary key)")
    cursor.execute("insert into n values(0)")
    for k in range(16):
        cursor.execute(f"insert into n select i + {1 << k} from n")


def weights(cursor: Any, collation: str) -> list[list[int]]:
    """For each code point its weights; none for what is no character."""
    found: list[list[int]] = []
    for plane in range(17):
        cursor.execute(
            f"select hex(weight_string(convert(convert(unhex(lpad(hex(i + {plane << 16}), 8, '0'))"
            f" using utf32) using utf8mb4) collate {collation})) from n order by i"
        )
        for (text,) in cursor.fetchall():
            known = text or ""
            found.append([int(known[i : i + 4], 16) for i in range(0, len(known), 4)])
    return found


def split(found: list[list[int]]) -> Packed:
    """Length or IMPLICIT + base of each code point, and the weights of the former ones."""
    lengths = np.zeros(CODE_POINTS, np.uint8)
    listed: list[int] = []
    for c, w in enumerate(found):
        if 0xD800 <= c < 0xE000:
            continue
        if len(w) == 2 and w[1] == (c & 0x7FFF | 0x8000) and w[0] - (c >> 15) in IMPLICIT_BASES:
            lengths[c] = IMPLICIT + IMPLICIT_BASES.index(w[0] - (c >> 15))
        else:
            lengths[c] = len(w)
            listed += w
    return Packed(lengths, np.array(listed, np.uint16), np.zeros((0, LONGEST), np.int32))


def changes(cursor: Any, function: str) -> np.ndarray:
    """(code point, what the function makes of it) of each character that it changes."""
    found = []
    for plane in range(2):
        cursor.execute(
            f"select i + {plane << 16}, hex({function}), hex(s) from (select i, concat(convert("
            f"convert(unhex(lpad(hex(i + {plane << 16}), 8, '0')) using utf32) using utf8mb4),"
            f" '1111') s from n) x where not hex({function}) <=> hex(s) order by i"
        )
        for c, text, source in cursor.fetchall():
            # The digits make room: the function changes texts in their place, and cuts what grows.
            if source != "31313131":
                found.append((c, ord(bytes.fromhex(text).decode()[0])))
    return np.array(found, np.int32)


def _write(name: str, data: bytes) -> None:
    (FOLDER / name).write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def collation(cursor: Any, name: str) -> Packed:
    """A collation, with its contractions if it is of the kind that has them."""
    plain = split(weights(cursor, name))
    if "uca1400" not in name:
        return plain
    return with_contractions(plain, search(cursor, name, plain))


def main() -> None:
    cursors = []
    for socket in sys.argv[1:3]:
        connection = pymysql.connect(
            unix_socket=socket, user="root", autocommit=True, charset="utf8mb4"
        )
        cursors.append(connection.cursor())
        numbers(cursors[-1])
    cursor, mariadb = cursors
    cursor.execute(
        "select hex(weight_string(convert(unhex(lpad(hex(i), 2, '0')) using latin1)"
        " collate latin1_swedish_ci)) from n where i < 256 order by i"
    )
    single = [int(text, 16) for (text,) in cursor.fetchall()]
    parts = [collation(mariadb if "uca1400" in name else cursor, name) for name in NAMES]
    _write("weights.bin", pack(parts, single))
    changed = [
        changes(server, f"{function}(s collate {name})")
        for server, name in (
            (cursor, "utf8mb4_general_ci"),
            (cursor, "utf8mb4_0900_ai_ci"),
            (mariadb, "utf8mb4_uca1400_ai_ci"),
        )
        for function in ("lower", "upper")
    ]
    latin1 = []
    for function in ("lower", "upper"):
        cursor.execute(
            f"select hex({function}(convert(unhex(lpad(hex(i), 2, '0')) using latin1)))"
            " from n where i < 256 order by i"
        )
        latin1.append(bytes(int(text, 16) for (text,) in cursor.fetchall()))
    _write("cases.bin", pack_cases(changed, latin1))
    for each in cursors:
        each.execute("drop database weight_tables")


if __name__ == "__main__":
    main()
