"""Two real servers: what is equal is found equal, and every difference is found and named."""

from __future__ import annotations

import threading
import time

import pytest

from cdc.base.errors import TransientError
from cdc.verify.delivery import UpstreamMoment
from cdc.verify.report import ComparisonVerdict, RowKind, TableResult
from cdc.verify.running import NothingToVerify
from cdc.verify.sessions import TargetSession
from sink.mysql.settings import MysqlSettings
from tests.verify.sides import Still, Two
from tests.waiting import until

pytestmark = pytest.mark.real

_DIGITS = "(" + " UNION ALL ".join(f"SELECT {d} AS d" for d in range(10)) + ")"
NUMBERS = (
    "(SELECT a.d + 10*b.d + 100*c.d + 1000*d.d + 10000*e.d AS n"
    f" FROM {_DIGITS} a, {_DIGITS} b, {_DIGITS} c, {_DIGITS} d, {_DIGITS} e) AS numbers"
)
ROWS = 100_000


def _found(result: TableResult) -> list[tuple[object, ...]]:
    return sorted(
        (
            str(d.kind),
            tuple(d.key.values()),
            tuple((v.column, v.upstream, v.target) for v in d.values),
        )
        for d in result.differences
    )


def test_one_of_each_kind_is_found_among_100_000_rows(two: Two) -> None:
    two.both(
        "CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(40), n DECIMAL(12,2))",
        f"INSERT INTO big SELECT n, CONCAT('value ', n), n / 100 FROM {NUMBERS}",
    )
    began = time.monotonic()
    (result,) = two.run().results
    print(f"100 000 rows in {time.monotonic() - began:.2f} s")
    assert (result.verdict, result.upstream_rows, result.target_rows) == ("equal", ROWS, ROWS)

    two.theirs.execute(
        "UPDATE big SET v = 'Value 77777' WHERE id = 77777",
        "DELETE FROM big WHERE id = 5",
        "INSERT INTO big VALUES (-3, 'x', NULL)",
        database=two.schema,
    )
    (result,) = two.run().results
    assert result.verdict is ComparisonVerdict.DIFFERENT
    assert (result.different, result.more, result.exact) == (3, False, True)
    assert (result.upstream_rows, result.target_rows) == (ROWS, ROWS)
    assert _found(result) == [
        ("changed", ("77777",), (("v", "value 77777", "Value 77777"),)),
        ("extra", ("-3",), (("v", None, "x"), ("n", None, None))),
        ("missing", ("5",), (("v", "value 5", None), ("n", "0.05", None))),
    ]


@pytest.mark.parametrize(
    "key",
    [
        "a INT, b VARCHAR(10), v INT, PRIMARY KEY (a, b)",
        "a INT NOT NULL, b VARCHAR(10) NOT NULL, v INT, UNIQUE (b, a)",
        "a DATETIME(3), b VARBINARY(10), v INT, PRIMARY KEY (b, a)",
        "a ENUM('x','2','3','4','5','6','7','8','9'), b CHAR(10), v INT, PRIMARY KEY (a, b)",
        "a FLOAT, b DECIMAL(9,3), v INT, PRIMARY KEY (a, b)",
    ],
)
def test_keys_of_many_kinds_are_cut_and_looked_up(two: Two, key: str) -> None:
    times = "DATETIME" in key
    a = "'2026-01-01' + INTERVAL n % 9 SECOND" if times else "1 + n % 9"
    two.both(
        f"CREATE TABLE t ({key})",
        f"INSERT INTO t SELECT {a}, 1 + n DIV 9, n FROM {NUMBERS} WHERE n < 900",
    )
    assert two.compare(chunk_rows=100)["t"].verdict is ComparisonVerdict.EQUAL
    two.theirs.execute(
        "UPDATE t SET v = -1 WHERE v = 450",
        "DELETE FROM t WHERE v IN (3, 899)",
        database=two.schema,
    )
    two.ours.execute("DELETE FROM t WHERE v = 500", database=two.schema)
    result = two.compare(chunk_rows=100)["t"]
    assert result.different == 4
    assert sorted(d.kind for d in result.differences) == ["changed", "extra", "missing", "missing"]
    (changed,) = (d for d in result.differences if d.kind is RowKind.CHANGED)
    assert [(v.column, v.upstream, v.target) for v in changed.values] == [("v", "450", "-1")]


def test_a_missing_duplicate_of_a_table_without_a_key_is_found(two: Two) -> None:
    two.both(
        "CREATE TABLE nokey (a INT, b VARCHAR(10))",
        f"INSERT INTO nokey SELECT n % 100, 'x' FROM {NUMBERS} WHERE n < 200",
    )
    assert two.compare()["nokey"].verdict is ComparisonVerdict.EQUAL
    # As many rows as before, and each pair of equal rows would cancel in a XOR.
    two.theirs.execute(
        "DELETE FROM nokey WHERE a = 7", "INSERT INTO nokey VALUES (8, 'x'), (8, 'x')",
        database=two.schema,
    )  # fmt: skip
    result = two.compare()["nokey"]
    assert (result.verdict, result.different) == (ComparisonVerdict.DIFFERENT, 2)
    shown = [(d.key, d.upstream, d.target) for d in result.differences]
    assert sorted(shown, key=str) == [
        ({"a": "7", "b": "x"}, 2, 0),
        ({"a": "8", "b": "x"}, 2, 4),
    ]


@pytest.mark.parametrize("two", [("mariadb-11.4", "mysql-8.0")], indirect=True)
def test_every_hash_is_found_by_itself_as_well(two: Two) -> None:
    two.both(
        "CREATE TABLE t (a INT)", f"INSERT INTO t SELECT n FROM {NUMBERS} WHERE n < 50",
        "INSERT INTO t VALUES (7)",
    )  # fmt: skip
    for side in two.sides("t"):
        everything = side.hashes_in([0], 1)
        assert sorted(everything.values()) == [*[1] * 49, 2]
        for value, count in everything.items():
            assert side.counts_of([value]) == {value: count}
            assert len(side.details_where([value])) == count


VALUES = (
    ("VARCHAR(10)", "NULL", "''"),
    ("VARCHAR(10)", "'a'", "'a '"),
    ("VARCHAR(10)", "'a'", "'A'"),
    ("VARCHAR(10)", "'~'", "NULL"),
    ("TEXT", "'a,b'", "'a,c'"),
    ("VARCHAR(10) CHARACTER SET latin1", "'é'", "'e'"),
    ("VARBINARY(10)", "X'00'", "X''"),
    ("BINARY(4)", "X'01020304'", "X'01020300'"),
    ("BLOB", "X'ff'", "X'fe'"),
    ("FLOAT", "0.1", "0.10000001"),
    ("DOUBLE", "0.1", "0.10000000000000002"),
    ("DOUBLE", "0e0", "5e-324"),
    ("DECIMAL(30,10)", "1.0000000001", "1.0000000002"),
    ("BIGINT UNSIGNED", "18446744073709551615", "18446744073709551614"),
    ("BIT(9)", "1", "257"),
    ("DATE", "'0000-00-00'", "NULL"),
    ("DATETIME(6)", "'2026-01-02 03:04:05.000001'", "'2026-01-02 03:04:05'"),
    ("TIME(3)", "'-00:00:00.001'", "'00:00:00.001'"),
    ("TIMESTAMP NULL", "'2026-07-01 00:00:00'", "'2026-07-01 01:00:00'"),
    ("YEAR", "0", "2000"),
    ("ENUM('a','b','')", "''", "0"),
    ("SET('a','b')", "'a'", "'a,b'"),
    ("JSON", "'{\"a\": 1}'", "'{\"a\": 2}'"),
    ("POINT", "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(1 3)')"),
)


@pytest.mark.parametrize(
    "two",
    [("mariadb-11.4", "mysql-8.0"), ("mysql-8.0", "mysql-9.7"), ("mariadb-11.4", "mariadb-10.11")],
    indirect=True,
)
def test_every_type_is_equal_to_itself_and_differs_by_the_least(two: Two) -> None:
    columns = ", ".join(f"c{i} {kind} NULL" for i, (kind, _, _) in enumerate(VALUES))
    first = ", ".join(a for _, a, _ in VALUES)
    prepare = ("SET sql_mode = '', time_zone = '+02:00'",)
    two.both(
        *prepare,
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns})",
        *(f"INSERT INTO t VALUES ({i}, {first})" for i in range(-1, len(VALUES))),
        "CREATE TABLE k (" + columns + ")",
        f"INSERT INTO k VALUES ({first}), ({first})",
    )
    for name, result in two.compare().items():
        assert (result.verdict, result.notes) == (ComparisonVerdict.EQUAL, []), name
    two.theirs.execute(
        *prepare,
        *(f"UPDATE t SET c{i} = {b} WHERE id = {i}" for i, (_, _, b) in enumerate(VALUES)),
        f"UPDATE k SET c0 = {VALUES[0][2]} LIMIT 1",
        database=two.schema,
    )
    found = two.compare(limit=100)
    assert {d.key["id"]: [v.column for v in d.values] for d in found["t"].differences} == {
        str(i): [f"c{i}"] for i in range(len(VALUES))
    }
    assert found["k"].different == 1


def test_documents_are_equal_however_each_family_writes_them(two: Two) -> None:
    two.both("CREATE TABLE j (id INT PRIMARY KEY, d JSON)", "CREATE TABLE k (d JSON)")
    two.both(
        *(
            f'INSERT INTO {t} VALUES ({n}\'{{"bb": [1, 2.5, null], "a":  "é\\\\n"}}\')'
            for t, n in (("j", "1, "), ("k", ""))
        )
    )
    assert {r.verdict for r in two.compare().values()} == {ComparisonVerdict.EQUAL}
    two.theirs.execute(
        'UPDATE j SET d = \'{"bb": [1, 2.5, 0], "a": "é\\\\n"}\'',
        "UPDATE k SET d = '{}'",
        database=two.schema,
    )
    found = two.compare()
    assert [v.column for v in found["j"].differences[0].values] == ["d"]
    assert found["k"].different == 1


@pytest.mark.parametrize("by_range", [False, True])
def test_sides_that_sort_and_store_text_differently_are_equal(two: Two, by_range: bool) -> None:
    column = "CREATE TABLE t (k VARCHAR(20) COLLATE {} PRIMARY KEY, v VARCHAR(9) CHARACTER SET {})"
    two.ours.execute(column.format("utf8mb4_bin", "latin1"), database=two.schema)
    two.theirs.execute(column.format("utf8mb4_general_ci", "utf8mb4"), database=two.schema)
    key = "CONCAT(IF(n % 2, 'a', 'B'), IF(n % 3, 'Z', 'y'), MD5(n))"
    two.both(f"INSERT INTO t SELECT LEFT({key}, 20), 'é' FROM {NUMBERS} WHERE n < 1000")
    result = two.one("t", by_range)
    assert (result.verdict, result.upstream_rows) == ("equal", 1000)
    # In ranges a row of the target is counted in each that has it.
    assert result.target_rows == 1000 or by_range
    two.theirs.execute("UPDATE t SET v = 'e' ORDER BY k LIMIT 1", database=two.schema)
    result = two.one("t", by_range)
    assert [(v.upstream, v.target) for d in result.differences for v in d.values] == [("é", "e")]
    assert result.different == 1


def test_a_row_that_a_server_cannot_put_together_is_an_error_and_not_equal(two: Two) -> None:
    columns = ", ".join(f"c{i} VARBINARY(900)" for i in range(20))
    two.both(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})", f"CREATE TABLE k ({columns})")
    values = ", ".join(["REPEAT('x', 900)"] * 20)
    two.both(f"INSERT INTO t VALUES (1, {values})", f"INSERT INTO k VALUES ({values})")
    ((before,),) = two.theirs.execute("SELECT @@global.max_allowed_packet")
    two.theirs.execute("SET GLOBAL max_allowed_packet = 16384")
    try:
        for result in two.compare().values():
            assert result.verdict is ComparisonVerdict.FAILED
            assert "TG:ErrVerifyRowTooLarge" in result.notes[0]
    finally:
        two.theirs.execute(f"SET GLOBAL max_allowed_packet = {before}")


def test_tables_and_columns_that_one_side_lacks(two: Two) -> None:
    two.both("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    two.ours.execute("CREATE TABLE gone (id INT PRIMARY KEY)", database=two.schema)
    two.ours.execute("ALTER TABLE t ADD w INT", database=two.schema)
    found = two.compare()
    assert found["gone"].verdict is found["t"].verdict is ComparisonVerdict.DIFFERENT
    assert "no such table" in found["gone"].structure[0]
    assert found["t"].structure == ["column w is upstream only"]
    assert (found["t"].different, found["t"].upstream_rows) == (0, 1)


def test_an_empty_side_and_more_differences_than_are_shown(two: Two) -> None:
    two.both("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    assert two.compare()["t"].verdict is ComparisonVerdict.EQUAL
    two.theirs.execute(
        f"INSERT INTO t SELECT n, n FROM {NUMBERS} WHERE n < 5000", database=two.schema
    )
    result = two.compare(chunk_rows=100, limit=7)["t"]
    # Enough is enough: the rest is only said.
    assert 1000 <= result.different < 5000
    assert (len(result.differences), result.more) == (7, True)
    assert result.verdict is ComparisonVerdict.DIFFERENT


class _Moving(Still):
    """A table that is written to: ``steps`` says what happens at the target before which cut."""

    def __init__(self, two: Two, steps: dict[int, str], moved: bool) -> None:
        self._two = two
        self._steps = steps
        self._moved = moved
        self.cuts = 0

    def reach(self, position: object, stop: object) -> None:
        """Make one step."""
        self.cuts += 1
        if statement := self._steps.get(self.cuts):
            self._two.theirs.execute(statement, database=self._two.schema)

    def moved(self, schema: str, table: str, since: UpstreamMoment) -> bool:
        """Return what the test says."""
        return self._moved


@pytest.mark.parametrize("key", [", PRIMARY KEY (id)", ""])
def test_rows_in_flight_are_looked_at_until_only_the_real_ones_stay(two: Two, key: str) -> None:
    two.both(
        f"CREATE TABLE t (id INT, v INT{key})",
        f"INSERT INTO t SELECT n, 0 FROM {NUMBERS} WHERE n < 1000",
    )
    two.ours.execute("UPDATE t SET v = 1 WHERE id IN (1, 8)", database=two.schema)
    late = {4: "UPDATE t SET v = 1 WHERE id = 1"}
    # The row that arrives late has looked the same twice, as one that changes to and fro does.
    (result,) = two.run(_Moving(two, late, moved=True), limit=9).results
    assert {(d.key["id"], d.upstream) for d in result.differences if d.upstream} == {("8", 1)}
    assert (result.verdict, result.unsettled) == (ComparisonVerdict.DIFFERENT, 0)
    assert (result.exact, result.different) == (False, 1)


def test_a_row_that_changes_at_each_look_proves_nothing(two: Two) -> None:
    two.both("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 0)")
    two.ours.execute("UPDATE t SET v = -1", database=two.schema)
    steps = {n: f"UPDATE t SET v = {n}" for n in range(20)}
    (result,) = two.run(_Moving(two, steps, moved=True), rechecks=2).results
    assert (result.verdict, result.different, result.unsettled) == (
        ComparisonVerdict.UNSETTLED,
        0,
        1,
    )


def test_a_stop_does_not_wait_for_a_query(two: Two) -> None:
    two.both("CREATE TABLE t (id INT PRIMARY KEY)")
    run = two.prepare()
    with two.theirs.connect(database=two.schema) as holder:
        holder.cursor().execute("LOCK TABLES t WRITE")
        worker = threading.Thread(target=two.finish, args=[run])
        worker.start()
        until(lambda: _waits(two), "the query waits for the lock")
        assert [r.verdict for r in run.results] == [ComparisonVerdict.RUNNING]
        run.interrupt()
        worker.join(30)
        assert not worker.is_alive()
    assert [r.verdict for r in run.results] == [ComparisonVerdict.STOPPED]


def _waits(two: Two) -> bool:
    found = two.theirs.execute(
        "SELECT 1 FROM information_schema.processlist WHERE state LIKE '%metadata lock%'"
        f" AND info LIKE '%{two.schema}%' AND id <> CONNECTION_ID()"
    )
    return bool(found)


def test_a_server_that_cannot_be_reached_and_a_schema_without_tables_are_errors(two: Two) -> None:
    with pytest.raises(NothingToVerify):
        two.run()
    two.both("CREATE TABLE t (id INT PRIMARY KEY)")
    nobody = MysqlSettings.parse("mysql://root@127.0.0.1:9/", {})
    with pytest.raises(TransientError):
        two.prepare().servers(lambda: TargetSession(nobody))
