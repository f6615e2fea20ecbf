"""Chunks of real tables: every row in one of them, whatever the key is, and read from its index."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from cdc.base.errors import InvalidError, TransientError
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Table
from cdc.snapshot.chunks import Chunk, ChunkPlan, ChunkPlanner, check_where
from cdc.snapshot.handle import SESSION, Handle, handle_of
from tests import seeds
from tests.servers.database import Database

_WORDS = ["", " ", "a", "A", "a ", "á", "aa", "B", "b", "ß", "ss", "z", "\\'", "Ω", "ω", "€", "~"]
_WIDE = ["𝒳", "日本", "日", "e\u0301", "é", "\u0000", "\t"]
_LATIN = [w for w in _WORDS if w not in ("Ω", "ω")]
# By type of a key column: values as SQL.
_TYPES: dict[str, list[str]] = {
    "BIGINT": ["-9223372036854775808", "9223372036854775807", *map(str, range(-40, 40, 3))],
    "BIGINT UNSIGNED": ["0", "9223372036854775808", "18446744073709551615", "18446744073709551614"],
    "INT(6) UNSIGNED ZEROFILL": ["0", "7", "70", "4294967295"],
    "BIT(64)": ["0", "1", "9223372036854775808", "18446744073709551615"],
    "DECIMAL(30,10)": ["0", "-0.0000000001", "0.0000000001", "-9.5", f"{10**20 - 1}.9999999999"],
    "DATE": ["'0000-00-00'", "'2024-00-00'", "'2024-02-31'", "'2024-03-01'", "'9999-12-31'"],
    "DATETIME(6)": ["'0000-00-00'", "'2024-03-01 00:00:00.000001'", "'2024-03-01'", "'1000-01-01'"],
    "TIMESTAMP(3)": ["'0000-00-00'", "'2024-10-27 00:30:00.001'", "'2024-10-27 01:30:00.001'"],
    "TIME(2)": ["'-838:59:59'", "'-00:00:00.01'", "'00:00:00'", "'838:59:59'"],
    "YEAR": ["'0000'", "1901", "1999", "2000", "2001", "2155"],
    "VARBINARY(20)": ["''", "X'00'", "X'0000'", "X'27'", "X'FF00'", "'a'", "'A'"],
    "BINARY(2)": ["''", "X'0001'", "X'27'", "X'FFFF'", "'a'"],
    "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci": _WORDS + _WIDE,
    "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin": _WORDS + _WIDE,
    "CHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci": _WORDS + _WIDE,
    "VARCHAR(20) CHARACTER SET utf8 COLLATE utf8_general_ci": _WORDS,
    "VARCHAR(20) CHARACTER SET utf16 COLLATE utf16_bin": _WORDS + _WIDE,
    "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci": _LATIN,
    "CHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci": _LATIN,
    "ENUM('z','y','x','')": ["'z'", "'y'", "'x'", "''"],
    "SET('z','y','x')": ["''", "'z'", "'y'", "'z,x'", "'z,y,x'"],
}  # fmt: skip
_MARIADB = {
    "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci": _WORDS + _WIDE,
    "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin": _WORDS + _WIDE,
    "UUID": [f"'{n:08x}-1234-1abc-8def-{n * 7:012x}'" for n in (0, 1, 15, 4095, 2**32 - 1)],
}
_MYSQL = {
    "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci": _WORDS + _WIDE,
    "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_cs": _WORDS + _WIDE,
}
_ONE_CHUNK = ("ENUM", "SET")


@pytest.fixture(scope="module", params=["mysql-8.0", "mariadb-11.4"])
def db(request: pytest.FixtureRequest, database: Callable[..., Database]) -> Database:
    server = database(request.param)
    server.execute("DROP DATABASE IF EXISTS chunked", "CREATE DATABASE chunked")
    return server


@pytest.fixture
def session(db: Database) -> Iterator[Any]:
    with db.connect(database="chunked") as connection:
        for statement in SESSION:
            _run(connection, statement)
        yield connection


def test_random_tables_are_covered_once(db: Database, session: Any) -> None:
    chance = random.Random(seeds.seed())
    types = {**_TYPES, **(_MARIADB if db.kind == "mariadb" else _MYSQL)}
    shapes = [[name] for name in types]
    shapes += [chance.sample(sorted(types), chance.choice((2, 2, 3))) for _ in range(12)]
    for number, shape in enumerate(shapes):
        table = _make(session, f"r{number}", shape, types, chance)
        handle = handle_of(table)
        alone = shape[0].startswith(_ONE_CHUNK)
        assert sum(_numbers(session, table, "TRUE").values()) > 2, shape
        assert (handle is None) == alone, shape
        chunks = _planned(session, table, handle, lambda: chance.randint(1, 9))
        assert len(chunks) == 1 or not alone
        _check_cover(session, table, handle, chunks, f"{shape}")


def test_a_range_that_takes_its_lower_border_is_noticed(db: Database, session: Any) -> None:
    """Control: what the property above would say of chunks whose borders are in both."""
    chance = random.Random(seeds.seed())
    table = _make(session, "control", ["BIGINT"], _TYPES, chance)
    handle = handle_of(table)
    assert handle is not None
    chunks = _planned(session, table, handle, lambda: 3)

    class Overlapping(Handle):
        def within(self, low: Any, high: Any) -> str:
            return super().within(low, high).replace(" > ", " >= ")

    wrong = Overlapping(handle.schema, handle.table, handle.columns)
    with pytest.raises(AssertionError):
        _check_cover(session, table, wrong, chunks, "control")


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        ("PRIMARY KEY (a, b)", "seq DIV 500, seq % 500"),
        ("PRIMARY KEY (a DESC, b)", "seq DIV 500, seq % 500"),
        ("UNIQUE KEY (b, a)", "seq * 7919, seq DIV 700"),
    ],
)
def test_the_index_is_used(session: Any, key: str, rows: str) -> None:
    """Neither planning nor reading looks at much more rows than there are."""
    _run(session, "DROP TABLE IF EXISTS big")
    _run(session, f"CREATE TABLE big (n INT, a INT NOT NULL, b BIGINT NOT NULL, c INT, {key})")
    digits = " UNION ALL ".join(f"SELECT {i} AS d" for i in range(10))
    numbers = f"SELECT {_SEQ} AS seq FROM " + ", ".join(f"({digits}) d{i}" for i in range(4))
    _run(session, f"INSERT INTO big SELECT seq, {rows}, 1 FROM ({numbers}) s")
    _run(session, "ANALYZE TABLE big")
    table, total = _shown(session, "big"), 10_000
    handle = handle_of(table)
    assert handle is not None
    before = _looked_at(session)
    chunks = _planned(session, table, handle, lambda: 100)
    planned = _looked_at(session) - before
    assert total / 100 <= len(chunks) <= total / 100 + 2
    assert planned < 1.5 * total
    _check_cover(session, table, handle, chunks, key)
    # The control reads all rows once more for itself.
    assert _looked_at(session) - before - planned < 3 * total


def test_integers_are_reckoned_where_they_are_dense(session: Any) -> None:
    _run(session, "DROP TABLE IF EXISTS dense")
    _run(session, "CREATE TABLE dense (n INT, k BIGINT UNSIGNED PRIMARY KEY)")
    values = ",".join(f"({n},{n * 3 // 2 + 18446744073709550000})" for n in range(1000))
    _run(session, f"INSERT INTO dense VALUES {values}")
    _run(session, "ANALYZE TABLE dense")
    table = _shown(session, "dense")
    handle = handle_of(table)
    planner = ChunkPlanner(session, "chunked", "dense", handle)
    plan = planner.begin()
    assert plan.least == 18446744073709550000
    before = _looked_at(session)
    chunks = _all(planner, plan, lambda: 100)
    assert _looked_at(session) == before
    assert len(chunks) == 16
    _check_cover(session, table, handle, chunks, "dense")
    # One that takes all numbers needs no other for the tail.
    assert [(c.low, c.high) for c in _all(planner, plan, lambda: 1499)] == [(None, None)]
    assert len(_all(planner, plan, lambda: 1498)) == 3
    _run(session, "DELETE FROM dense WHERE n BETWEEN 100 AND 980")
    _run(session, "ANALYZE TABLE dense")
    assert planner.begin().least is None


def test_a_plan_goes_on_where_it_was_kept(session: Any) -> None:
    chance = random.Random(seeds.seed())
    table = _make(session, "kept", ["VARBINARY(20)", "BIGINT"], _TYPES, chance)
    handle = handle_of(table)
    chunks: list[Chunk] = []
    plan: ChunkPlan = ChunkPlanner(session, "chunked", "kept", handle).begin()
    while True:
        plan = ChunkPlan.from_dict(json.loads(json.dumps(plan.to_dict())))
        chunk, plan = ChunkPlanner(session, "chunked", "kept", handle).next(plan, 5)
        if chunk is None:
            break
        chunks.append(Chunk.from_dict(json.loads(json.dumps(chunk.to_dict()))))
        assert chunks[-1] == chunk
    assert [c.number for c in chunks] == list(range(len(chunks)))
    _check_cover(session, table, handle, chunks, "kept")


def test_what_grows_meanwhile_ends_and_keeps_its_old_rows(session: Any) -> None:
    _run(session, "DROP TABLE IF EXISTS grows")
    _run(session, "CREATE TABLE grows (n INT, k VARCHAR(9) PRIMARY KEY)")
    _run(session, f"INSERT INTO grows VALUES {','.join(f'({n}, {n + 100})' for n in range(50))}")
    table = _shown(session, "grows")
    handle = handle_of(table)
    planner = ChunkPlanner(session, "chunked", "grows", handle)
    plan, got, new = planner.begin(), Counter[int](), 1000
    while True:
        chunk, plan = planner.next(plan, 5)
        if chunk is None:
            break
        got += _numbers(session, table, chunk.condition(handle))
        for key in (f"z{new}", f"0{new}"):
            _run(session, f"INSERT INTO grows VALUES ({new}, '{key}')")
            new += 1
    assert {n: got[n] for n in range(50)} == dict.fromkeys(range(50), 1)
    assert new < 1040


def test_tables_that_are_one_chunk(session: Any) -> None:
    for columns in (
        "k INT",
        "k INT, UNIQUE KEY (k)",
        "k DOUBLE PRIMARY KEY",
        "k TEXT NOT NULL, UNIQUE KEY (k(3))",
        "k VARCHAR(20) NOT NULL, PRIMARY KEY (k(3))",
        "k INT NOT NULL, v INT GENERATED ALWAYS AS (k + 1) VIRTUAL, UNIQUE KEY (v)",
    ):
        _run(session, "DROP TABLE IF EXISTS whole")
        _run(session, f"CREATE TABLE whole (n INT, {columns})")
        table = _shown(session, "whole")
        assert handle_of(table) is None, columns
        chunks = _planned(session, table, None, lambda: 1)
        assert [(c.low, c.high) for c in chunks] == [(None, None)]


def test_a_condition_is_one_condition(session: Any) -> None:
    _run(session, "DROP TABLE IF EXISTS cond")
    _run(session, "CREATE TABLE cond (n INT PRIMARY KEY)")
    for good in ("n > 3", "n IN (SELECT 1) OR n = 2 -- all", "n > 3 # why"):
        check_where(session, "chunked", "cond", "chunked.cond", good)
    for bad in ("n >", "n > 3) OR (1 = 1", "n > 3 LIMIT 1", "m = 1", "n = 1; DROP TABLE cond", ""):
        with pytest.raises(InvalidError) as caught:
            check_where(session, "chunked", "cond", "chunked.cond", bad)
        assert caught.value.code == "TG:ErrSnapshotWhereInvalid"
    with pytest.raises(TransientError) as gone:
        check_where(session, "chunked", "gone", "chunked.gone", "n > 3")
    assert gone.value.code == "TG:ErrSnapshotTableChanged"
    chunk = Chunk("chunked", "cond", 0)
    assert chunk.condition(None, "n = 1 OR n = 2 -- x") == "1 = 1 AND (n = 1 OR n = 2 -- x\n)"


def test_a_key_that_is_gone_is_said(session: Any) -> None:
    _run(session, "DROP TABLE IF EXISTS moved")
    _run(session, "CREATE TABLE moved (n INT, k INT PRIMARY KEY)")
    planner = ChunkPlanner(session, "chunked", "moved", handle_of(_shown(session, "moved")))
    _run(session, "ALTER TABLE moved CHANGE k other INT")
    with pytest.raises(TransientError) as caught:
        planner.begin()
    assert caught.value.code == "TG:ErrSnapshotTableChanged"


# --- what the tests share ---------------------------------------------------------------------

_SEQ = "d0.d + d1.d * 10 + d2.d * 100 + d3.d * 1000"


def _make(
    session: Any, name: str, shape: list[str], types: dict[str, list[str]], chance: random.Random
) -> Table:
    """A table whose key has columns of ``shape``, with up to 60 rows; ``n`` tells them apart."""
    keys = [f"k{i}" for i in range(len(shape))]
    columns = ", ".join(f"{k} {kind} NOT NULL" for k, kind in zip(keys, shape, strict=True))
    columns = columns.replace("TIMESTAMP(3) NOT NULL", "TIMESTAMP(3) NOT NULL DEFAULT 0")
    turned = [k + chance.choice(("", "", " DESC")) for k in keys]
    unique = chance.choice(("PRIMARY KEY", "UNIQUE KEY"))
    chance.shuffle(turned)
    # A key in another order than the columns; what decides is what stands first in it.
    if len(turned) == 1 or turned[0].split()[0] != "k0":
        turned.sort(key=lambda k: k.split()[0])
    _run(session, f"DROP TABLE IF EXISTS {name}")
    _run(
        session,
        f"CREATE TABLE {name} (n INT AUTO_INCREMENT, {columns}, {unique} ({', '.join(turned)}),"
        " KEY (n)) ENGINE=InnoDB",
    )
    rows = list(product(*(types[kind] for kind in shape)))
    for row in chance.sample(rows, min(len(rows), 60)):
        values = ", ".join(_sql(v, kind) for v, kind in zip(row, shape, strict=True))
        # What a collation takes for equal is there already.
        _run(session, f"INSERT IGNORE INTO {name} ({', '.join(keys)}) VALUES ({values})")
    return _shown(session, name)


def _sql(value: str, kind: str) -> str:
    return f"'{value}'" if "CHARACTER SET" in kind else value


def _shown(session: Any, name: str) -> Table:
    text = _run(session, f"SHOW CREATE TABLE {name}")[0][1]
    version = _run(session, "SELECT VERSION()")[0][0]
    mariadb = "MariaDB" in version
    numbers = tuple(int(n) for n in version.split("-")[0].split("."))
    read = Session(mariadb=mariadb, version=(numbers[0], numbers[1], numbers[2]))
    return parse_create_table(text, read, schema="chunked", printed=True)


def _planned(
    session: Any, table: Table, handle: Handle | None, size: Callable[[], int]
) -> list[Chunk]:
    planner = ChunkPlanner(session, table.schema, table.name, handle)
    return _all(planner, planner.begin(), size)


def _all(planner: ChunkPlanner, plan: ChunkPlan, size: Callable[[], int]) -> list[Chunk]:
    chunks: list[Chunk] = []
    while True:
        chunk, plan = planner.next(plan, size())
        if chunk is None:
            return chunks
        chunks.append(chunk)
        assert len(chunks) < 10_000


def _check_cover(
    session: Any, table: Table, handle: Handle | None, chunks: list[Chunk], what: str
) -> None:
    got: Counter[int] = Counter()
    for chunk in chunks:
        found = _numbers(session, table, chunk.condition(handle))
        assert not chunk.rows or sum(found.values()) <= chunk.rows, what
        got += found
    assert got == _numbers(session, table, "TRUE"), what


def _numbers(session: Any, table: Table, condition: str) -> Counter[int]:
    return Counter(r[0] for r in _run(session, f"SELECT n FROM {table.name} WHERE {condition}"))


def _looked_at(session: Any) -> int:
    """Rows that the server's engines were asked for in this session."""
    found = dict(_run(session, "SHOW SESSION STATUS LIKE 'Handler_read%'"))
    return sum(int(found[f"Handler_read_{n}"]) for n in ("next", "prev", "rnd_next"))


def _run(session: Any, sql: str) -> list[Any]:
    with session.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
