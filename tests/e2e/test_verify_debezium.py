"""``cdc cli changefeed verify`` of topics that consumers of Debezium read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cdc.verify.report import TableResult
from cdc.verify.topic import TopicReader
from sink.kafka.settings import KafkaSettings
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import Way, make_way
from tests.servers import Broker, Database
from tests.verify.sides import topics_compared
from tests.verify.test_servers import VALUES
from tests.waiting import until

pytestmark = pytest.mark.real

# Debezium's form has no points here.
_VALUES = [
    *(one for one in VALUES if one[0] != "POINT"),
    ("TINYINT(1)", "-128", "127"),
    ("BIT(1)", "0", "1"),
    ("BIT(64)", "18446744073709551615", "18446744073709551614"),
    ("DECIMAL(5,0)", "-128", "-129"),
    ("DECIMAL(3,2)", "0", "-0.01"),
    ("FLOAT(7,2)", "1.1", "1.11"),
    ("DATETIME(3)", "'0000-00-00 00:00:00'", "'1969-12-31 23:59:59.999'"),
    ("DATE", "'0001-01-01'", "'2026-02-31'"),
    ("TIME", "'838:59:59'", "'-838:59:59'"),
    ("SET('a','b')", "''", "'b'"),
]
# A date that no calendar has is null, an ENUM's value that was none the empty text.
_ALIKE = {("'0000-00-00'", "NULL"), ("''", "0")}
_KEYS = (
    ("DECIMAL(9,3)", "-7.125"),
    ("DATE", "'2024-02-29'"),
    ("DATETIME(6)", "'1969-12-31 23:59:59.999999'"),
    ("DATETIME(3)", "'2024-01-02 03:04:05.006'"),
    ("TIMESTAMP(3) DEFAULT '2024-01-01'", "'2024-01-02 03:04:05.600'"),
    ("TIME(2)", "'-11:12:13.14'"),
    ("BIGINT UNSIGNED", "18446744073709551614"),
    ("ENUM('x','it''s','a,b')", "'it''s'"),
    ("SET('p','q')", "'p,q'"),
    ("BIT(9)", "257"),
    ("BIT(1)", "1"),
    ("YEAR", "0"),
    ("BINARY(3)", "X'010200'"),
    ("VARCHAR(9)", "'é'"),
)


def _compared(way: Way, sink: str, **options: object) -> dict[str, TableResult]:
    """The schema's tables against the changefeed's topics, without a server between."""
    settings = KafkaSettings.parse(sink, {"dispatchers": [_rule(way)]})
    return topics_compared(way.database, way.schema, settings, **options)


def _rule(way: Way) -> dict[str, object]:
    """A topic for each table, as Debezium has them; schema changes are in that of the URI."""
    topic = f"{way.schema}.{{schema}}.{{table}}"
    return {"matcher": ["*.*"], "topic": topic, "partition": "index-value"}


def _create(way: Way, **options: object) -> str:
    sink = way.sink(protocol="debezium", partition_num=3, **options)
    way.create(sink=sink, config={"sink": {"dispatchers": [_rule(way)]}, "force_replicate": True})
    return sink


def _without_binlog(way: Way, *statements: str) -> None:
    """Change the upstream in a way that no changefeed can know of."""
    way.execute("SET SESSION sql_log_bin = 0, sql_mode = '', time_zone = '+02:00'", *statements)


@pytest.mark.parametrize(("server", "bare"), [("mariadb-11.4", False), ("mysql-8.0", True)])
def test_every_type_is_equal_until_one_value_changes(
    capture: CaptureProcess,
    database: Callable[..., Database],
    broker: Broker,
    fresh_name: str,
    server: str,
    bare: bool,
) -> None:
    way = make_way(capture, database(server), broker, fresh_name, f"d-{server.replace('.', '-')}")
    kinds = ", ".join(f"c{i} {kind} NULL" for i, (kind, _, _) in enumerate(_VALUES))
    keys = ", ".join(f"k{i} {kind} NOT NULL" for i, (kind, _) in enumerate(_KEYS))
    names = ", ".join(f"k{i}" for i in range(len(_KEYS)))
    way.execute(
        "SET sql_mode = ''",
        f"CREATE TABLE t (id INT PRIMARY KEY, {kinds})",
        f"CREATE TABLE k ({keys}, v INT, PRIMARY KEY ({names}))",
        "CREATE TABLE zero (id INT PRIMARY KEY, a DATE NOT NULL, b DATETIME(6) NOT NULL,"
        " c TIMESTAMP(2) NULL, d TIMESTAMP(2) NOT NULL DEFAULT '2024-01-01')",
        "CREATE TABLE nokey (a INT, b TIMESTAMP NULL)",
    )
    sink = _create(way, debezium_disable_schema=bare)
    first = ", ".join(a for _, a, _ in _VALUES)
    key = ", ".join(value for _, value in _KEYS)
    way.execute(
        "SET sql_mode = '', time_zone = '+02:00'",
        *(f"INSERT INTO t VALUES ({i}, {first})" for i in range(-1, len(_VALUES))),
        "INSERT INTO t (id) VALUES (1000), (1001)",
        "DELETE FROM t WHERE id = 1000",
        f"INSERT INTO k VALUES ({key}, 1)",
        "INSERT INTO zero VALUES (1, '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00'),"
        " (2, '2024-05-06', '2024-05-06 07:08:09.01', '2024-05-06 07:08:09.1', '2024-05-06')",
        "INSERT INTO nokey VALUES (1, '2024-05-06'), (1, '2024-05-06'), (2, NULL), (3, NULL)",
        "UPDATE nokey SET a = 4 WHERE a = 3",
        "DELETE FROM nokey WHERE a = 2",
    )
    way.delivered()
    for name, result in _compared(way, sink, whole=True).items():
        shown = (str(result.verdict), result.notes, result.structure)
        assert shown == ("equal", [], []), (name, result.differences)

    _without_binlog(
        way,
        *(f"UPDATE t SET c{i} = {b} WHERE id = {i}" for i, (_, _, b) in enumerate(_VALUES)),
        "UPDATE k SET v = 2",
        "UPDATE zero SET c = NULL, b = '2024-05-06' WHERE id = 1",
        "DELETE FROM nokey LIMIT 1",
    )
    found = _compared(way, sink, whole=True, limit=100)
    silent = {i for i, (_, *both) in enumerate(_VALUES) if tuple(both) in _ALIKE}
    assert {d.key["id"]: [v.column for v in d.values] for d in found["t"].differences} == {
        str(i): [f"c{i}"] for i in range(len(_VALUES)) if i not in silent
    }
    assert [[v.column for v in d.values] for d in found["k"].differences] == [["v"]]
    assert [[v.column for v in d.values] for d in found["zero"].differences] == [["b", "c"]]
    assert found["nokey"].different == 1
    _without_binlog(way, "DELETE FROM k")
    (extra,) = _compared(way, sink, whole=True)["k"].differences
    assert str(extra.kind) == "extra"
    capture.ask("DELETE", f"/changefeeds/{way.name}")


def test_schema_changes_count_where_they_are_though_they_are_told_apart(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    way.execute("CREATE TABLE emptied (id INT PRIMARY KEY, v INT)")
    sink = _create(way)
    rows = ", ".join(f"({i}, {i})" for i in range(50))
    way.execute(
        f"INSERT INTO emptied VALUES {rows}",
        "TRUNCATE emptied",
        "INSERT INTO emptied VALUES (1, 2), (60, 2)",
        "CREATE TABLE old (id INT PRIMARY KEY, gone INT, name INT)",
        "INSERT INTO old VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)",
        "ALTER TABLE old DROP COLUMN gone, CHANGE name named INT",
        "UPDATE old SET named = 20 WHERE id = 2",
        "RENAME TABLE old TO newer",
        "ALTER TABLE newer ADD COLUMN more INT NOT NULL DEFAULT 7",
        "INSERT INTO newer VALUES (4, 4, 8)",
        "UPDATE newer SET id = 30 WHERE id = 3",
        "CREATE TABLE anew (id INT PRIMARY KEY)",
        "INSERT INTO anew VALUES (1), (2)",
        "DROP TABLE anew",
        "CREATE TABLE anew (id INT PRIMARY KEY)",
        "INSERT INTO anew VALUES (3)",
    )
    way.delivered()
    found = _compared(way, sink)
    assert {n: (str(r.verdict), r.unseen) for n, r in found.items()} == {
        "emptied": ("equal", 0), "newer": ("equal", 0), "anew": ("equal", 0),
    }  # fmt: skip
    assert found["newer"].target_rows == 4
    _without_binlog(
        way, "UPDATE newer SET named = 21 WHERE id = 2", "INSERT INTO emptied VALUES (5, 5)"
    )
    found = _compared(way, sink)
    assert [d.key for d in found["newer"].differences] == [{"id": "2"}]
    assert [str(d.kind) for d in found["emptied"].differences] == ["missing"]
    # As if nobody had told them: what they emptied is still there.
    monkeypatch.setattr(TopicReader, "_read_changes", lambda _: None)
    found = _compared(way, sink)
    assert found["emptied"].different > 40
    assert found["anew"].different == 2


def test_rows_that_differ_are_delivered_again_and_rows_of_a_snapshot_are_known(way: Way) -> None:
    way.execute(
        "CREATE TABLE t (a ENUM('x', 'y,z'), b DECIMAL(5,2), c DATE, v INT NOT NULL,"
        " PRIMARY KEY (a, b, c))",
        *(f"INSERT INTO t VALUES ('y,z', {i}.5, '2024-05-06', {i})" for i in range(5)),
    )
    sink = way.sink(protocol="debezium", partition_num=2)
    config = {"snapshot": {"mode": "initial"}, "sink": {"dispatchers": [_rule(way)]}}
    way.create(sink=sink, config=config)
    way.execute("UPDATE t SET v = 40 WHERE v = 4")
    way.delivered()
    done = way.capture.cli("changefeed", "verify", "-c", way.name, "--whole")
    assert done.returncode == 0, done.stdout + done.stderr
    _without_binlog(
        way,
        "DELETE FROM t WHERE v = 1",
        "UPDATE t SET v = 30 WHERE v = 3",
        "INSERT INTO t VALUES ('x', -1, '2024-01-01', 6)",
    )
    done = way.capture.cli("changefeed", "verify", "-c", way.name, "--whole", "--repair", "--yes")
    assert done.returncode == 1
    shown = done.stdout + done.stderr
    assert f"{way.schema}.t: 3 rows are delivered again, 1 of them are deleted" in shown, shown
    assert "(a='x', b='-1.00', c='2024-01-01'): is missing at the target" in shown
    until(lambda: _orders(way) == {"delivered"}, "rows are delivered again")
    done = way.capture.cli("changefeed", "verify", "-c", way.name, "--whole")
    assert done.returncode == 0, done.stdout + done.stderr


def _orders(way: Way) -> set[str]:
    path = f"/changefeeds/{way.name}/snapshots"
    return {item["state"] for item in way.capture.ask("GET", path)["items"]}
