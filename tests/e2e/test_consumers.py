"""The examples of docs/consumers.md, each run as it stands there, on topics of real changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pyspark
import pytest

from tests.e2e import flink, jvm
from tests.e2e.conftest import Way
from tests.seeds import one_run_in
from tests.servers import Database, process
from tests.waiting import until

pytestmark = pytest.mark.real


def _of_page(heading: str, language: str) -> str:
    """The example below a heading of the page."""
    page = (Path(__file__).parents[2] / "docs/consumers.md").read_text()
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    return section.split(f"```{language}\n")[1].split("```")[0]


def _filled(example: str, **words: str) -> str:
    """The example with words of the test in the place of its own."""
    for theirs, ours in words.items():
        assert theirs in example
        example = example.replace(theirs, ours)
    return example


_MADE = "2026-01-02 03:04:05.678"
_BY_KEY = {"sink": {"dispatchers": [{"matcher": ["*.*"], "partition": "index-value"}]}}


def test_the_program_of_the_page_for_consumers_copies_the_tables(way: Way, tmp_path: Path) -> None:
    way.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE b (x INT, y VARCHAR(9), v DECIMAL(6, 2), PRIMARY KEY (x, y))",
        "CREATE TABLE c (id INT PRIMARY KEY)",
    )
    options = {"partition_num": 3, "enable_tidb_extension": True}
    options["handle_key_as_record_key"] = True
    way.create(sink=way.sink(**options), config=_BY_KEY)
    way.execute(
        *(f"INSERT INTO a VALUES ({i}, 'é{i}')" for i in range(12)),
        "INSERT INTO b VALUES (1, 'p', 1.50), (2, 'q', NULL), (3, 'r', 3)",
        "INSERT INTO c VALUES (1), (2), (3), (4)",
        "UPDATE a SET id = id + 100 WHERE id < 5",
        "UPDATE b SET v = 7 WHERE x = 2",
        "DELETE FROM a WHERE id = 103",
        "TRUNCATE c",
        "INSERT INTO c VALUES (9)",
        "CREATE TABLE gone (id INT PRIMARY KEY)",
        "INSERT INTO gone VALUES (1)",
        "DROP TABLE gone",
    )
    way.delivered()
    for message in way.messages():
        if message.body["data"]:
            (row,) = message.body["data"]
            key = {column: row[column] for column in message.body["pkNames"]}
            assert json.loads(message.key) == key
    program = tmp_path / "program.py"
    program.write_text(_of_page("A program in Python", "python"))
    command = [sys.executable, str(program), way.broker.bootstrap, way.schema]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = [
        (line["table"], *line["row"].values()) for line in map(json.loads, done.stdout.splitlines())
    ]
    there = [
        (f"{way.schema}.{table}", *(None if v is None else str(v) for v in row))
        for table in ("a", "b", "c")
        for row in way.execute(f"SELECT * FROM {table}")
    ]
    assert sorted(found, key=repr) == sorted(there, key=repr)


@one_run_in(2)
def test_the_spark_program_of_the_page_for_consumers_copies_a_table(
    way: Way, tmp_path: Path
) -> None:
    way.execute(
        "CREATE TABLE a (id BIGINT UNSIGNED PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE b (id INT PRIMARY KEY)",
    )
    options = {"partition_num": 3, "enable_tidb_extension": True}
    way.create(sink=way.sink(**options), config=_BY_KEY)
    way.execute(
        *(f"INSERT INTO a VALUES ({i}, 'é{i}')" for i in range(12)),
        "INSERT INTO b VALUES (1), (500)",
        "ALTER TABLE a ADD COLUMN w INT",
        "UPDATE a SET id = id + 100, w = 7 WHERE id < 5",
        "UPDATE a SET v = NULL WHERE id = 7",
        "UPDATE a SET id = 1 WHERE id = 101",
        "DELETE FROM a WHERE id IN (8, 103)",
    )
    way.delivered()
    program = tmp_path / "program.py"
    program.write_text(_of_page("Spark Structured Streaming", "python"))
    jars = sorted(str(jar) for jar in jvm.jars("spark-kafka-4.2").iterdir())
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin/spark-submit"), "--master", "local[1]", "--jars", ",".join(jars)]
    command += ["--conf", "spark.sql.shuffle.partitions=1", "--conf", "spark.ui.enabled=false"]
    command += ["--conf", f"spark.local.dir={tmp_path}", "--driver-memory", "512m"]
    done = subprocess.run(
        [*command, str(program), way.broker.bootstrap, way.schema, "a", "id"],
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    copied = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    there = [
        dict(zip("ivw", (None if v is None else str(v) for v in row), strict=True))
        for row in way.execute("SELECT id, v, w FROM a")
    ]
    by_id = {row["id"]: (row["v"], row.get("w")) for row in copied}
    assert len(by_id) == len(copied)
    assert by_id == {row["i"]: (row["v"], row["w"]) for row in there}


def test_the_sql_for_flink_gives_the_rows_of_a_table(way: Way, tmp_path: Path) -> None:
    way.execute(
        "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, paid TINYINT(1), price DECIMAL(9, 2),"
        " note VARCHAR(50), made DATETIME(3), data BLOB)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
    )
    way.create(sink=way.sink(partition_num=2, enable_tidb_extension=False), config=_BY_KEY)
    way.execute(
        *(
            f"INSERT INTO orders VALUES ({i}, {i % 2}, {i}.50, 'é{i}', '{_MADE}', 'b')"
            for i in range(1, 9)
        ),
        "INSERT INTO orders VALUES (18446744073709551615, NULL, NULL, NULL, NULL, NULL)",
        "INSERT INTO other VALUES (1)",
        "ALTER TABLE orders ADD COLUMN later INT",
        "UPDATE orders SET id = id + 100, note = 'moved' WHERE id < 3",
        "UPDATE orders SET price = NULL WHERE id = 7",
        "DELETE FROM orders WHERE id IN (8, 101)",
    )
    way.delivered()
    example = _of_page("Flink", "sql")
    sql = _filled(example, **{"localhost:9092": way.broker.bootstrap, "'shop'": f"'{way.schema}'"})
    rows = flink.rows_of(sql, tmp_path)
    there = way.execute("SELECT id, paid, price, note, made, data FROM orders")
    assert rows == {str(row[0]): [_as_flink_says(value) for value in row] for row in there}


def _as_flink_says(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return None if value is None else str(value)


def test_the_jdbc_sink_of_kafka_connect_copies_tables(
    way: Way, database: Callable[..., Database], tmp_path: Path
) -> None:
    way.execute(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, price DECIMAL(9, 2), note VARCHAR(9), d DATE)",
        "CREATE TABLE items (a INT, b VARCHAR(20), n INT, PRIMARY KEY (a, b))",
    )
    rule = {"matcher": ["*.*"], "topic": f"{way.schema}_{{table}}", "partition": "index-value"}
    sink = way.sink(protocol="debezium", partition_num=1)
    way.create(sink=sink, config={"sink": {"dispatchers": [rule]}})
    way.execute(
        *(f"INSERT INTO orders VALUES ({i}, {i}.25, 'é{i}', '2026-02-0{i}')" for i in range(1, 9)),
        "INSERT INTO items VALUES (1, 'x', 1), (1, 'y', NULL), (2, 'x', 3)",
        "UPDATE orders SET id = id + 100 WHERE id < 3",
        "UPDATE orders SET note = NULL, price = -1 WHERE id = 5",
        "ALTER TABLE items ADD COLUMN m INT",
        "UPDATE items SET m = 7 WHERE a = 2",
        "DELETE FROM orders WHERE id IN (8, 101)",
    )
    way.delivered()
    target = database("mysql-8.0")
    # What is called the same in another database is none of the connector's.
    other = f"{way.schema[:50]}_other"
    target.execute(
        *(f"CREATE DATABASE {name}" for name in (way.schema, other)),
        f"CREATE TABLE {other}.orders (id INT PRIMARY KEY)",
    )
    example = _filled(
        _of_page("Kafka Connect's JDBC sink", "properties"),
        **{
            "jdbc:mysql://localhost:3306/copy": f"jdbc:mysql://127.0.0.1:{target.port}/{way.schema}",
            "=tidegate": "=root",
            "=secret": "=",
            "shop_(.*)": f"{way.schema}_(.*)",
        },
    )
    (tmp_path / "sink.properties").write_text(example)
    port = process.free_port()
    worker = {
        "bootstrap.servers": way.broker.bootstrap,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "only_scan",
        "connector.client.config.override.policy": "All",
    }
    (tmp_path / "worker.properties").write_text("".join(f"{k}={v}\n" for k, v in worker.items()))
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    command = jvm.command("connect-jdbc-3.5", main, "worker.properties", "sink.properties")
    log = tmp_path / "connect.log"
    connect = process.spawn(command, cwd=tmp_path, log=log)
    try:
        for table in ("orders", "items"):
            wanted = way.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
            until(lambda: _rows(target, way.schema, table) == wanted, f"{table} is there", 90)  # noqa: B023
    except AssertionError as error:
        pytest.fail(f"{error}\n{_rows(target, way.schema, table)}\n{log.read_text()[-6000:]}")
    finally:
        connect.terminate()
        process.wait_gone(connect, 30, "connect")


def _rows(target: Database, schema: str, table: str) -> list[tuple[object, ...]]:
    there = target.execute(f"SHOW TABLES FROM {schema} LIKE '{table}'")
    return target.execute(f"SELECT * FROM {schema}.{table} ORDER BY 1, 2") if there else []
