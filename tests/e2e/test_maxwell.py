"""Rows applied as any consumer of Maxwell applies them, and as Flink does, are the upstream's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import flink, topics
from tests.e2e.conftest import Way

pytestmark = pytest.mark.real

_TABLE = """
CREATE TABLE t (id DECIMAL(20, 0), b STRING, v INT, w DECIMAL(20, 4), made TIMESTAMP(3),
  s ARRAY<STRING>, f DOUBLE, `data` STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
  'properties.isolation.level' = 'read_committed', 'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset', 'format' = 'maxwell-json');
SELECT id, b, v, w, made, CAST(CARDINALITY(s) AS STRING), f, `data` FROM t;
"""


def test_consumers_of_maxwell_have_the_rows_of_the_upstream(way: Way, tmp_path: Path) -> None:
    way.execute(
        "CREATE TABLE t (id BIGINT UNSIGNED, b VARCHAR(10), v INT, w DECIMAL(20, 4) NOT NULL,"
        " made DATETIME(3), s SET('x','y'), f DOUBLE, data BLOB, PRIMARY KEY (b, id))"
    )
    rule = {"matcher": ["*.*"], "partition": "table"}
    way.create(
        sink=way.sink(protocol="maxwell", partition_num=2),
        config={"sink": {"dispatchers": [rule]}},
    )
    way.execute(
        *(
            f"INSERT INTO t VALUES ({i}, 'é{i % 3}', {i}, {i}.5, '2026-01-02 03:04:05.678', 'x',"
            f" {i}e20, 'b')"
            for i in range(30)
        ),
        "INSERT INTO t VALUES (18446744073709551615, 'max', NULL, -0.0001, NULL, 'x,y', 0.1, NULL)",
        "UPDATE t SET v = v + 100 WHERE id < 20",
        "UPDATE t SET id = id + 1000 WHERE id < 5",
        "UPDATE t SET made = NULL, s = '' WHERE id = 7",
        "DELETE FROM t WHERE id BETWEEN 10 AND 14",
        "ALTER TABLE t ADD COLUMN later INT NOT NULL DEFAULT 7",
        "INSERT INTO t VALUES (12, 'é0', NULL, 3, NULL, NULL, NULL, NULL, 8)",
    )
    way.delivered()
    rows, kinds, transactions = _applied(way)
    there = way.execute("SELECT id, b, v, w, later FROM t")
    assert {key: [r["v"], r["w"], r.get("later", 7)] for key, r in rows.items()} == {
        (b, id_): [v, str(w), later] for id_, b, v, w, later in there
    }
    # 20 and 5 rows by two UPDATEs, one by a third; nothing of the ALTER.
    assert kinds == {"insert": 32, "update": 26, "delete": 5}
    assert len(transactions) == 32 + 3 + 1
    assert {len(times) for times in transactions.values()} == {1}

    sql = _TABLE.format(topic=way.schema, servers=way.broker.bootstrap)
    shown = way.execute(
        "SELECT CAST(id AS CHAR), b, CAST(v AS CHAR), CAST(w AS CHAR),"
        " REPLACE(CAST(made AS CHAR), ' ', 'T'),"
        " CAST(IF(s = '', 0, 1 + (s LIKE '%,%')) AS CHAR), f, TO_BASE64(data) FROM t"
    )
    read = flink.rows_of(sql, tmp_path)
    found = {key: [*v[:6], v[6] and float(v[6]), v[7]] for key, v in read.items()}
    assert found == {row[0]: list(row) for row in shown}


def _applied(way: Way) -> tuple[dict[Any, dict[str, Any]], dict[str, int], dict[int, set[int]]]:
    """Rows by key; messages by type; the times that each transaction has."""
    rows: dict[Any, dict[str, Any]] = {}
    kinds: dict[str, int] = {}
    transactions: dict[int, set[int]] = {}
    for *_, key, value in topics.records(way.broker.bootstrap, [way.schema]):
        message = json.loads(value or b"null", parse_float=str)
        assert (message["database"], message["table"]) == (way.schema, "t")
        kind, data = message["type"], message["data"]
        kinds[kind] = kinds.get(kind, 0) + 1
        transactions.setdefault(message["xid"], set()).add(message["ts"])
        name = {"database": way.schema, "table": "t", "pk.b": data["b"], "pk.id": data["id"]}
        assert list(json.loads(key or b"null").items()) == list(name.items())
        if kind == "delete":
            assert rows.pop((data["b"], data["id"])) == data
            continue
        if kind == "update":
            before = data | message["old"]
            had = rows.pop((before["b"], before["id"]))
            assert had == before, "old is what had been sent"
        assert (data["b"], data["id"]) not in rows
        rows[data["b"], data["id"]] = data
    return rows, kinds, transactions
