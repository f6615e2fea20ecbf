"""A changefeed goes on where a real connector of Debezium has stopped, in the same topic.

Under load from the connector's offset, with one transaction twice at the most; while nobody writes
from that moment, with none.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from bench.debezium import Connect
from bench.gate import Gate
from cdc.cli.debezium import app
from tests.e2e import topics
from tests.e2e.beside import WritesBeside
from tests.e2e.capture_process import CaptureProcess
from tests.seeds import drawn
from tests.servers import Broker, Database
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow]

NAME = "c"
JSON = "org.apache.kafka.connect.json.JsonConverter"


_KINDS = (
    "j JSON, d DECIMAL(7,2), at DATETIME(3), st TIMESTAMP(6) NULL, e ENUM('a', 'b,c'), b BINARY(4),"
    " u BIGINT UNSIGNED, f FLOAT, n BIT(9), gone INT"
)
_VALUES = (
    """'{"bb": [1, 2.5, null], "a":  "é"}', -1.25, '2026-01-02 03:04:05.6',"""
    " '2026-01-02 03:04:05', 'b,c', X'0102', 18446744073709551615, 0.1, 257, 7"
)


class Shown(Connect):
    """The connector with the messages of its defaults."""

    def __init__(self, folder: Path, broker: Broker, gate: Gate, prefix: str) -> None:
        super().__init__(folder, broker, gate, prefix, "none")

    def _connector(self) -> dict[str, str]:
        converters = {f"{side}.converter": JSON for side in ("key", "value")}
        converters |= {f"{side}.converter.schemas.enable": "false" for side in ("key", "value")}
        return (
            super()._connector()
            | converters
            | {
                "bigint.unsigned.handling.mode": "long",
                "tombstones.on.delete": "true",
                "table.include.list": "bench.t,bench.kinds",
                "include.schema.changes": "true",
            }
        )

    def write_down(self, folder: Path) -> tuple[Path, Path]:
        """What Connect's REST interface says of it."""
        files = folder / "connector.json", folder / "offsets.json"
        for file, path in zip(files, ("/connectors/c", "/connectors/c/offsets"), strict=True):
            file.write_text(json.dumps(self._request("GET", path)))
        return files


class Load(WritesBeside):
    """Rows that are made, changed, and sometimes deleted; a third of all transactions has three."""

    def __init__(self, server: Database) -> None:
        super().__init__(server)
        self.events: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        self.rests = False

    def _write(self) -> None:
        if self.rests:
            return
        ids = [self.written + n for n in range(3 if self.written % 3 == 0 else 1)]
        statements, done = [], []
        for id in ids:
            statements += [f"INSERT INTO t VALUES ({id}, 0)", f"UPDATE t SET v = 1 WHERE id = {id}"]
            done += [(id, ("c", 0)), (id, ("u", 1))]
            if id % 5 == 0:
                statements.append(f"DELETE FROM t WHERE id = {id}")
                done.append((id, ("d", 1)))
        with self._server.connect(database="bench", autocommit=False) as one:
            for statement in statements:
                one.cursor().execute(statement)
            one.commit()
        for id, event in done:
            self.events[id].append(event)
        self.written += len(ids)


def _delivered(broker: Broker, topic: str) -> dict[int, list[tuple[str, int]]]:
    """By key what came of it, in order."""
    found: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for *_, key, value in topics.records(broker.bootstrap, [topic]):
        if value is None:
            continue
        body: dict[str, Any] = json.loads(value)
        row = body["before"] if body["op"] == "d" else body["after"]
        assert json.loads(key or b"null") == {"id": row["id"]}
        found[row["id"]].append((body["op"], row["v"]))
    return found


def size(broker: Broker, topic: str) -> int:
    """How many there are, while more come."""
    ours = {"bootstrap.servers": broker.bootstrap, "group.id": "size"}
    consumer = Consumer(ours)
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[1])
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("kind", "rests"), drawn([("mariadb-11.4", False), ("mysql-8.0", True)], names=2)
)
def test_a_changefeed_goes_on_where_the_connector_has_stopped(
    kind: str,
    rests: bool,
    database: Callable[[str], Database],
    broker: Broker,
    capture: CaptureProcess,
    tmp_path: Path,
) -> None:
    db, prefix = database(kind), f"dbz-{kind.partition('-')[0]}"
    db.execute("CREATE DATABASE bench", "CREATE TABLE bench.t (id INT PRIMARY KEY, v INT)")
    gate = Gate(db, f"dbz_{prefix[-5:]}")
    gate.create()
    connect, load = Shown(tmp_path, broker, gate, prefix), Load(db)
    topic = f"{prefix}.bench.t"
    db.execute(f"CREATE TABLE bench.kinds (id INT PRIMARY KEY, {_KINDS})")
    for name in (topic, f"{prefix}.bench.kinds", prefix):
        topics.create(broker.bootstrap, name)
    try:
        connect.start()
        # Within a second, which is all that the connector says of when a row was committed.
        db.execute(
            f"INSERT INTO kinds VALUES (1, {_VALUES}), (2, {_VALUES})",
            "DROP TABLE kinds",
            f"CREATE TABLE kinds (id INT PRIMARY KEY, {_KINDS})",
            f"INSERT INTO kinds VALUES (2, {_VALUES}), (3, {_VALUES})",
            "ALTER TABLE kinds DROP COLUMN gone, ADD more INT",
            "INSERT INTO kinds (id, more) VALUES (4, 4)",
            database="bench",
        )
        load.start()
        until(lambda: size(broker, topic) > 300, "the connector delivers", 60)
        load.rests = rests
        if rests:
            until(lambda: dict(_delivered(broker, topic)) == dict(load.events), "all has come")
        connect.pause()
        stopped, written = size(broker, topic), load.written
        files = connect.write_down(tmp_path)
        words = ("import", str(files[0]), "--brokers", broker.bootstrap, "--json")
        offsets = () if rests else ("--offsets", str(files[1]))
        said = CliRunner().invoke(app, [*words, "--output", str(tmp_path), *offsets])
        made = json.loads(said.output)
        again = "offset.event" in {one["key"] for one in made["left"]}
        if not rests:
            until(lambda: load.written > written + 100, "rows that nobody delivers", 60)
        (tmp_path / "password").write_text(gate.password)
        upstream, feed = (shlex.split(line) for line in made["changefeeds"][0]["commands"])
        for command in ((*upstream, "--password-file", str(tmp_path / "password")), feed):
            done = capture.cli(*command[2:])
            assert done.returncode == 0, done.stdout + done.stderr
        load.rests = False
        until(lambda: size(broker, topic) > stopped + 900, "it goes on", 60)
        load.stop()
        capture.wait_checkpoint(NAME)
        found = _delivered(broker, topic)
        twice = {id for id in load.events if found[id] != load.events[id]}
        assert found.keys() == load.events.keys()
        # Of one transaction what the connector had sent, and then all.
        assert len(twice) <= (3 if again else 0)
        assert max(twice, default=0) - min(twice, default=0) < 3
        for id in twice:
            wanted = load.events[id]
            assert found[id][-len(wanted) :] == wanted
            assert found[id][: -len(wanted)] == wanted[: len(found[id]) - len(wanted)]
        done = capture.cli("changefeed", "verify", "-c", NAME, "--whole")
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"bench\.kinds +equal +3 +3 ", done.stdout), done.stdout
    finally:
        load.stop()
        connect.stop()
        for path in ("/changefeeds/", "/upstreams/"):
            capture.api("DELETE", path + NAME)
        db.execute("DROP DATABASE bench")
