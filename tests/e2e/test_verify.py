"""``cdc cli changefeed verify`` against what a real changefeed has delivered."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from cdc.verify.report import TableResult
from sink.kafka.settings import KafkaSettings
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import Way, make_way
from tests.servers import Broker, Database
from tests.verify.sides import topics_compared
from tests.verify.test_servers import VALUES
from tests.waiting import until

pytestmark = pytest.mark.real


def _verify(way: Way, *more: str) -> tuple[int, str]:
    done = way.capture.cli("changefeed", "verify", "-c", way.name, *more)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def _without_binlog(way: Way, *statements: str) -> None:
    """Change the upstream in a way that no changefeed can know of."""
    way.execute("SET SESSION sql_log_bin = 0", *statements)


_SHORT = ("only_output_updated_columns", "delete_only_output_handle_key_columns")


@pytest.mark.parametrize(
    ("server", "options"),
    [("mariadb-11.4", ()), ("mysql-8.0", (*_SHORT, "enable_tidb_extension"))],
)
def test_a_topic_of_every_type_is_equal_to_its_upstream_until_one_value_changes(
    capture: CaptureProcess,
    database: Callable[..., Database],
    broker: Broker,
    fresh_name: str,
    server: str,
    options: tuple[str, ...],
) -> None:
    way = make_way(capture, database(server), broker, fresh_name, f"v-{server.replace('.', '-')}")
    columns = ", ".join(f"c{i} {kind} NULL" for i, (kind, _, _) in enumerate(VALUES))
    way.execute("SET sql_mode = ''", f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    way.execute("CREATE TABLE k (a VARCHAR(5), b ENUM('x','y'), PRIMARY KEY (b, a))")
    way.execute("CREATE TABLE part (id INT PRIMARY KEY, v INT, secret VARCHAR(9))")
    selector = {"matcher": [f"{way.schema}.part"], "columns": ["*", "!secret"]}
    way.create(
        sink=way.sink(partition_num=2, **dict.fromkeys(options, True)),
        config={"sink": {"column_selectors": [selector]}},
    )
    way.execute(
        "SET sql_mode = ''",
        *(
            f"INSERT INTO t VALUES ({n}, {', '.join(v[at] for v in VALUES)})"
            for n, at in ((1, 1), (2, 2))
        ),
        "INSERT INTO t (id) VALUES (3), (4)",
        "INSERT INTO k VALUES ('é', 'x'), ('a', 'y'), ('b', 'y')",
        "UPDATE k SET a = 'c' WHERE a = 'a'",
        "DELETE FROM t WHERE id = 4",
        "INSERT INTO part VALUES (1, 1, 'never'), (2, 2, 'sent')",
    )
    code, text = _verify(way, "--whole")
    assert code == 0, text
    assert "equal; exact" in text
    _without_binlog(way, "UPDATE part SET secret = 'still' WHERE id = 1")
    assert _verify(way, "--whole", "--table", f"{way.schema}.part")[0] == 0

    _without_binlog(way, "UPDATE t SET c0 = 'other' WHERE id = 2", "DELETE FROM k WHERE a = 'é'")
    _without_binlog(way, "UPDATE part SET v = 3 WHERE id = 2")
    code, text = _verify(way)
    assert code == 1
    assert f"{way.schema}.t (id='2'): differs\n    c0: upstream 'other', target ''" in text
    assert f"{way.schema}.part (id='2'): differs\n    v: upstream '3', target '2'" in text
    assert f"{way.schema}.k (b='1', a='é'): is at the target only" in text
    capture.ask("DELETE", f"/changefeeds/{way.name}")


def _fold(way: Way, topic: str, **options: bool) -> dict[str, TableResult]:
    """The schema's tables against a topic, without a server between."""
    settings = KafkaSettings.parse(way.sink(topic))
    return topics_compared(way.database, way.schema, settings, **options)


def test_a_topic_that_lacks_one_message_is_found_out(way: Way) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE nokey (v INT)")
    way.create(config={"force_replicate": True})
    way.execute(
        *(f"INSERT INTO t VALUES ({i}, 0)" for i in range(20)),
        "UPDATE t SET v = 1 WHERE id = 5",
        "DELETE FROM t WHERE id = 6",
        "INSERT INTO nokey VALUES (1), (1), (2)",
        "DELETE FROM nokey WHERE v = 2",
    )
    way.delivered()
    messages = way.messages()
    producer = Producer({"bootstrap.servers": way.broker.bootstrap, "log_level": 2})
    kinds = [(m.body["table"], m.body["type"]) for m in messages]
    dropped = {
        "nothing": -1,
        "update": kinds.index(("t", "UPDATE")),
        "delete": kinds.index(("t", "DELETE")),
        "insert": kinds.index(("t", "INSERT")),
        "duplicate": kinds.index(("nokey", "INSERT")),
    }
    for name, at in dropped.items():
        topics.create(way.broker.bootstrap, f"{way.schema}_{name}")
        for i, message in enumerate(messages):
            if i != at:
                producer.produce(f"{way.schema}_{name}", json.dumps(message.body).encode())
    assert producer.flush(30) == 0

    def found(name: str, **options: bool) -> list[tuple[str, str, int]]:
        results = _fold(way, f"{way.schema}_{name}", **options)
        return sorted((n, str(r.verdict), r.different) for n, r in results.items())

    equal = [("nokey", "equal", 0), ("t", "equal", 0)]
    assert found("nothing", whole=True) == equal
    for name in ("update", "delete", "insert"):
        assert found(name, whole=True) == [equal[0], ("t", "different", 1)], name
    assert found("duplicate", whole=True) == [("nokey", "different", 1), equal[1]]
    # Without --whole a row that no message is about may be older than the changefeed.
    assert found("insert") == [("nokey", "skipped", 0), ("t", "equal", 0)]
    assert _fold(way, f"{way.schema}_insert")["t"].unseen == 1
    assert found("update") == [("nokey", "skipped", 0), ("t", "different", 1)]


@pytest.mark.parametrize("protocol", ["canal-json", "debezium"])
def test_under_load_what_is_equal_is_found_equal(way: Way, protocol: str) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    way.execute("INSERT INTO t VALUES " + ", ".join(f"({i}, 0)" for i in range(2000)))
    rule = {"matcher": ["*.*"], "topic": f"{way.schema}.rows", "partition": "index-value"}
    sink = way.sink(protocol=protocol, partition_num=2)
    way.create(sink=sink, config={"sink": {"dispatchers": [rule]}})
    stop = threading.Event()

    def load() -> None:
        with way.database.connect(database=way.schema) as connection:
            step = 0
            while not stop.wait(0.01):
                step += 1
                connection.cursor().execute(f"UPDATE t SET v = {step} WHERE id = {step % 2000}")
                if step % 50 == 0:
                    connection.cursor().execute(f"ALTER TABLE t ADD c{step} INT NOT NULL DEFAULT 1")

    writer = threading.Thread(target=load)
    writer.start()
    try:
        code, text = _verify(way)
        assert code == 0, text
        assert "equal; under load" in text
    finally:
        stop.set()
        writer.join()


def test_a_stopped_changefeed_is_behind_and_a_stopped_verification_proves_nothing(
    way: Way,
) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    way.create()
    way.execute("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    way.delivered()
    way.capture.ask("POST", f"/changefeeds/{way.name}/pause")
    assert _verify(way)[0] == 0
    way.execute("INSERT INTO t VALUES (2)")
    code, text = _verify(way, "--json")
    assert code == 1
    found = json.loads(text)
    assert {t["table"].partition(".")[2]: t["verdict"] for t in found["tables"]} == {
        "t": "behind",
        "u": "equal",
    }
    assert (found["equal"], found["state"]) == (False, "finished")
    code, text = _verify(way, "--table", f"{way.schema}.none")
    assert code == 1
    assert "TG:ErrVerifyNoTables" in text
    missing = way.capture.api("GET", f"/changefeeds/{way.name}/verifications/none")
    assert missing.status_code == 404


def test_a_mysql_target_is_equal_under_load_and_each_kind_of_difference_is_printed(
    way: Way, database: Callable[..., Database]
) -> None:
    target = database("mariadb-10.11")
    tables = (
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), at TIMESTAMP(3) NULL)",
        "CREATE TABLE nokey (v INT)",
    )
    target.execute(f"CREATE DATABASE {way.schema}")
    target.execute(*tables, database=way.schema)
    way.execute(*tables)
    sink = target.uri() + "/"
    way.create(sink=sink, config={"force_replicate": True})
    way.execute(
        "INSERT INTO t VALUES " + ", ".join(f"({i}, 'v {i}', NOW(3))" for i in range(3000)),
        "INSERT INTO nokey VALUES (1), (1), (2)",
    )
    stop = threading.Event()

    def load() -> None:
        with way.database.connect(database=way.schema) as connection:
            step = 0
            while not stop.wait(0.01):
                step += 1
                connection.cursor().execute(f"UPDATE t SET v = {step} WHERE id = {step % 3000}")
                connection.cursor().execute(f"INSERT INTO nokey VALUES ({step + 9})")

    writer = threading.Thread(target=load)
    writer.start()
    try:
        code, text = _verify(way, "--chunk-rows", "500")
        assert code == 0, text
        assert "equal; under load" in text
    finally:
        stop.set()
        writer.join()
    code, text = _verify(way)
    assert code == 0, text
    assert "equal; exact" in text
    target.execute(
        "UPDATE t SET v = 'V 2500' WHERE id = 2500",
        "DELETE FROM t WHERE id = 2501",
        "INSERT INTO t VALUES (-1, NULL, NULL)",
        "DELETE FROM nokey WHERE v = 1 LIMIT 1",
        database=way.schema,
    )
    code, text = _verify(way)
    assert code == 1
    assert f"{way.schema}.t (id='2500'): differs\n    v: upstream 'v 2500', target 'V 2500'" in text
    assert f"{way.schema}.t (id='2501'): is missing at the target\n" in text
    assert f"{way.schema}.t (id='-1'): is at the target only\n" in text
    assert f"{way.schema}.nokey (v='1'): 2 times upstream, 1 times at the target" in text
    assert "NOT equal; exact" in text


_KEYED = (
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), name VARCHAR(20) UNIQUE)",
    "CREATE TABLE k (b BIT(10), d DECIMAL(8,3), s VARCHAR(20) CHARSET latin1, y VARBINARY(8),"
    " at DATETIME(3), n BIGINT UNSIGNED, c CHAR(4) COLLATE utf8mb4_general_ci, e DATE, v INT,"
    " PRIMARY KEY (b, d, s, y, at, n, c, e))",
    "CREATE TABLE nokey (v INT)",
)


def _keyed(n: int, v: str) -> str:
    at = f"'2024-05-06 07:08:09.{n:03}'"
    key = f"{n}, -{n}.5, 'ä {n}', X'00{n:02}', {at}, {2**63 + n}, 'ö', '2024-01-{1 + n:02}'"
    return f"({key}, {v})"


def test_rows_that_differ_are_repaired_under_load_and_others_are_left_alone(
    way: Way, database: Callable[..., Database]
) -> None:
    target = database("mysql-8.0")
    target.execute(f"CREATE DATABASE {way.schema}")
    target.execute(*_KEYED, database=way.schema)
    way.execute(*_KEYED)
    way.create(sink=target.uri() + "/", config={"force_replicate": True})
    way.execute(
        "INSERT INTO t VALUES " + ", ".join(f"({i}, 'v', 'n{i}')" for i in range(100)),
        "INSERT INTO k VALUES " + ", ".join(_keyed(n, "1") for n in range(9)),
        "INSERT INTO nokey VALUES (1)",
    )
    way.delivered()
    target.execute(
        "UPDATE t SET v = 'wrong' WHERE id IN (1, 2)",
        "DELETE FROM t WHERE id IN (3, 4)",
        # It has what the unique key of a missing row has.
        "INSERT INTO t VALUES (-1, 'target only', 'n3'), (-2, 'target only', NULL)",
        "UPDATE k SET v = 2 WHERE n = 9223372036854775809",
        "DELETE FROM k WHERE n = 9223372036854775810",
        "INSERT INTO k VALUES " + ", ".join((_keyed(20, "3"), _keyed(21, "3"))),
        "INSERT INTO nokey VALUES (2)",
        database=way.schema,
    )
    code, text = _verify(way, "--repair")
    assert code == 1
    assert f"{way.schema}.t: 6 rows are delivered again, 2 of them are deleted" in text
    assert f"{way.schema}.k: 4 rows are delivered again, 2 of them are deleted" in text
    assert f"{way.schema}.nokey: cannot be repaired row by row" in text
    assert "nothing was repaired" in text

    stop = threading.Event()

    def load() -> None:
        step = 0
        with way.database.connect(database=way.schema) as connection:
            while not stop.wait(0.02):
                step += 1
                # Those that the target lacks would stop the changefeed.
                id = 50 + step % 50
                connection.cursor().execute(f"UPDATE t SET v = {step} WHERE id = {id}")

    writer = threading.Thread(target=load)
    writer.start()
    try:
        code, text = _verify(way, "--repair", "--yes", "--rechecks", "2")
        assert code == 1
        assert "snapshot 2: " in text, text
        until(lambda: _states(way) == {"delivered"}, "rows are delivered again")
    finally:
        stop.set()
        writer.join()
    code, text = _verify(way, "--table", f"{way.schema}.t", "--table", f"{way.schema}.k")
    assert code == 0, text
    assert target.execute("SELECT v FROM nokey ORDER BY v", database=way.schema) == [(1,), (2,)]
    verification = way.capture.ask("GET", f"/changefeeds/{way.name}/verifications")["items"][0]
    path = f"/changefeeds/{way.name}/verifications/{verification['id']}/repair"
    refused = way.capture.api("POST", path, {})
    assert refused.status_code == 409
    assert refused.json()["error_code"] == "TG:ErrVerifyNothingToRepair"


def test_a_topic_gets_the_rows_that_differ_once_more(way: Way) -> None:
    way.execute(
        "CREATE TABLE t (a ENUM('x', 'y'), b VARCHAR(9) CHARSET latin1, c DATE, u UUID, n INET6,"
        " v INT NOT NULL, PRIMARY KEY (a, b, c, u, n))"
    )
    way.create(sink=way.sink(partition_num=2))
    key = f"'{uuid.UUID(int=1 << 127)}', '::ffff:1.2.3.4'"
    way.execute(
        *(f"INSERT INTO t VALUES ('y', 'ä{i}', '2024-05-06', {key}, {i})" for i in range(9))
    )
    way.delivered()
    _without_binlog(
        way,
        "SET NAMES utf8mb4",
        "DELETE FROM t WHERE v IN (1, 2)",
        "UPDATE t SET v = 30 WHERE v = 3",
        f"INSERT INTO t VALUES ('x', 'new', '2024-01-01', {key}, 40)",
    )
    code, text = _verify(way, "--whole", "--repair", "--yes")
    assert code == 1
    assert f"{way.schema}.t: 4 rows are delivered again, 2 of them are deleted" in text
    until(lambda: _states(way) == {"delivered"}, "rows are delivered again")
    code, text = _verify(way, "--whole")
    assert code == 0, text
    repaired = [m.body for m in way.messages()][-4:]
    assert [m["type"] for m in repaired].count("DELETE") == 2
    assert {m["data"][0]["b"] for m in repaired} == {"ä1", "ä2", "ä3", "new"}


def _states(way: Way) -> set[str]:
    path = f"/changefeeds/{way.name}/snapshots"
    return {item["state"] for item in way.capture.ask("GET", path)["items"]}
