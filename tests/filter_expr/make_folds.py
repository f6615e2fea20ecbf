"""Makes cdc/kernels/collations/folds.bin from real servers.

    python -m tests.filter_expr.make_folds

Every server of ``SERVERS`` is asked which characters a class of one character matches where case is
ignored, for each character that has a case on any of them. MySQL 8.0.33 (ICU 69), MySQL 9.7.4
and MariaDB 10.11, 11.4 and 11.8 (PCRE2 10.42 to 10.46) agreed on all but the characters that came
to Unicode later, and two pairs that Unicode 15.1 joined.
"""

from __future__ import annotations

import lzma
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

from cdc.kernels.collations import folds
from tests import servers
from tests.filter_expr.rows import quoted

# The first one has the newest tables, and says how old a character is.
SERVERS = ("mysql-9.7", "mysql-8.0", "mariadb-11.8", "mariadb-11.4", "mariadb-10.11")
OLDEST = "9.0"
_POINTS = [i for i in range(0x110000) if not 0xD800 <= i < 0xE000]


def _filled(cursor: Any, points: list[int]) -> None:
    cursor.execute("set names utf8mb4 collate utf8mb4_general_ci")
    cursor.execute("create or replace database fold_tables" if _maria(cursor) else
                   "create database if not exists fold_tables")  # fmt: skip
    cursor.execute("use fold_tables")
    cursor.execute("drop table if exists c")
    cursor.execute(
        "create table c(i int primary key, t varchar(2) character set utf8mb4"
        " collate utf8mb4_general_ci)"
    )
    for k in range(0, len(points), 20_000):
        rows = (f"({i}, convert(x'{chr(i).encode().hex()}' using utf8mb4))"
                for i in points[k : k + 20_000])  # fmt: skip
        cursor.execute(f"insert into c values {', '.join(rows)}")


def _maria(cursor: Any) -> bool:
    cursor.execute("select version()")
    return "MariaDB" in cursor.fetchone()[0]


def _matched(cursor: Any, pattern: str, collation: str = "utf8mb4_general_ci") -> frozenset[int]:
    cursor.execute(f"select i from c where t collate {collation} regexp {quoted(pattern)}")
    return frozenset(i for (i,) in cursor.fetchall())


def main() -> None:
    """Asks all servers and writes the file."""
    known: list[dict[int, frozenset[int]]] = []
    cased: list[int] = []
    old: frozenset[int] = frozenset()
    for name in SERVERS:
        with servers.database(name) as server, server.connect() as connection:
            cursor = connection.cursor()
            if not cased:
                _filled(cursor, _POINTS)
                found = _matched(cursor, r"[\p{Changes_When_Casemapped}\p{Lu}\p{Ll}\p{Lt}]")
                old = _matched(cursor, rf"\p{{age={OLDEST}}}", "utf8mb4_bin")
                cased = sorted(found | {i for i in _POINTS if chr(i).casefold() != chr(i)})
            _filled(cursor, cased)
            known.append({i: _matched(cursor, f"[{chr(i)}]") for i in cased})
    pairs, unsettled = [], []
    for i in cased:
        if len({classes[i] for classes in known}) > 1 or not old.issuperset(known[0][i]):
            unsettled.append(i)
        elif len(known[0][i]) > 1:
            pairs.append((i, min(known[0][i])))
    full = [
        (i, *map(ord, folded.ljust(3, "\0"))) for i in cased if len(folded := chr(i).casefold()) > 1
    ]
    print(f"{len(pairs)} characters in classes, {len(unsettled)} unsettled, {len(full)} that grow,"
          f" Unicode {unicodedata.unidata_version}")  # fmt: skip
    packed = folds.pack(
        np.array(pairs, np.int32), np.array(unsettled, np.int32), np.array(full, np.int32)
    )
    path = Path(folds.__file__).with_name("folds.bin")
    path.write_bytes(lzma.compress(packed, preset=9 | lzma.PRESET_EXTREME))
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
