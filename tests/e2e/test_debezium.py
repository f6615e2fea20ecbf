"""Rows folded as any consumer of Debezium folds them are those of the upstream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.codec.shown_events import shown_events
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import Way, make_way
from tests.seeds import drawn
from tests.servers import Broker, Database

pytestmark = pytest.mark.real


@pytest.fixture
def way(
    request: pytest.FixtureRequest,
    capture: CaptureProcess,
    database: Callable[..., Database],
    broker: Broker,
    fresh_name: str,
) -> Iterator[Way]:
    """Return a way from the server that is the test's parameter; its changefeed is removed."""
    name = request.param
    yield (made := make_way(capture, database(name), broker, fresh_name, name.replace(".", "-")))
    capture.api("DELETE", f"/changefeeds/{made.name}")


@pytest.mark.parametrize(
    ("way", "schema"),
    drawn([("mariadb-11.4", True), ("mysql-8.0", False)], names=2),
    indirect=["way"],
)
def test_a_consumer_of_debezium_has_the_rows_of_the_upstream(way: Way, schema: bool) -> None:
    way.execute("CREATE TABLE t (a INT, b VARCHAR(10), v INT, PRIMARY KEY (b, a))")
    dispatchers = [
        {"matcher": ["*.*"], "topic": f"{way.schema}.{{schema}}.{{table}}",
         "partition": "index-value"},
    ]  # fmt: skip
    sink = way.sink(protocol="debezium", debezium_disable_schema=not schema, partition_num=2)
    way.create(sink=sink, config={"sink": {"dispatchers": dispatchers}})
    way.execute(*(f"INSERT INTO t VALUES ({i}, 'é{i % 3}', {i})" for i in range(30)))
    way.execute("UPDATE t SET v = v + 100 WHERE a < 20", "UPDATE t SET a = a + 1000 WHERE a < 5")
    way.execute("DELETE FROM t WHERE a BETWEEN 10 AND 14", "INSERT INTO t VALUES (12, 'é0', NULL)")
    way.execute("ALTER TABLE t ADD COLUMN w BIGINT UNSIGNED DEFAULT 7")
    way.execute("UPDATE t SET w = 9 WHERE a = 29")
    way.delivered()

    rows = f"{way.schema}.{way.schema}.t"
    folded: dict[str, Any] = {}
    ops, gone, places = [], set(), set()
    for _, _, _, key, value in topics.records(way.broker.bootstrap, [rows]):
        name = json.dumps(_payload(key, schema))
        if value is None:
            assert name in gone, "a tombstone follows its DELETE"
            gone.remove(name)
            continue
        message = _payload(value, schema)
        ops.append(message["op"])
        source = message["source"]
        places.add((source["file"], source["pos"], source["server_id"], source["gtid"]))
        image = message["before"] if message["op"] == "d" else message["after"]
        assert json.loads(name) == {c: image[c] for c in ("b", "a")}
        if message["op"] == "d":
            del folded[name]
            gone.add(name)
        else:
            folded[name] = message["after"]
    assert not gone
    # What was added by the statement alone is in no message.
    for image in folded.values():
        image.setdefault("w", 7)
    upstream = {
        json.dumps({"b": b, "a": a}): {"a": a, "b": b, "v": v, "w": w}
        for a, b, v, w in way.execute("SELECT a, b, v, w FROM t")
    }
    assert folded == upstream
    # Every event of the table, as the server shows them, and nothing else.
    shown = {
        (file.name, event.pos, event.server_id, event.gtid)
        for file in way.database.binlogs()
        for event in shown_events(way.database, file.name)
        if event.table == f"{way.schema}.t"
    }
    if way.database.kind == "mysql":
        assert places == shown
    else:
        # Each statement here is a transaction of one event, whose text lies before it.
        found = {(file, *who): pos for file, pos, *who in places}
        theirs = {(file, *who): pos for file, pos, *who in shown}
        assert found.keys() == theirs.keys()
        assert all(0 < theirs[key] - found[key] < 200 for key in found)
    # 5 rows got other keys, 5 were deleted.
    assert (ops.count("d"), ops.count("c"), ops.count("u")) == (10, 36, 21)
    told = topics.records(way.broker.bootstrap, [way.schema])
    changes = [_payload(value, schema)["ddl"] for *_, value in told]
    assert changes == ["ALTER TABLE t ADD COLUMN w BIGINT UNSIGNED DEFAULT 7"]


def _payload(text: bytes | None, schema: bool) -> Any:
    found = json.loads(text or b"null")
    assert ("schema" in found) == schema
    return found["payload"] if schema else found
