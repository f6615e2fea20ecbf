"""A changefeed goes on where the real Maxwell has stopped, in the same topic and under load."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc.cli.maxwell import app
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.test_from_debezium import Load, size
from tests.maxwell import program
from tests.servers import Broker, Database
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.soak]

TOPIC = "from-maxwell"
_KINDS = {"insert": "c", "update": "u", "delete": "d"}


def _delivered(broker: Broker) -> dict[int, list[tuple[str, int]]]:
    """By key what came of it, in order."""
    found: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for *_, key, value in topics.records(broker.bootstrap, [TOPIC]):
        body = json.loads(value or b"null")
        row = body["data"]
        assert json.loads(key or b"null") == {"database": "bench", "table": "t", "pk.id": row["id"]}
        found[row["id"]].append((_KINDS[body["type"]], row["v"]))
    return found


def _imported(config: Path, position: str, folder: Path) -> list[list[str]]:
    """The two commands that the import prints, of which the first has the password's file."""
    words = ["import", str(config), "--position", position, "--json", "--output", str(folder)]
    said = CliRunner().invoke(app, words)
    upstream, feed = json.loads(said.output)["changefeeds"][0]["commands"]
    password = ["--password-file", str(folder / "password")]
    return [[*shlex.split(upstream), *password], shlex.split(feed)]


def test_a_changefeed_goes_on_where_maxwell_has_stopped(
    database: Callable[[str], Database],
    broker: Broker,
    capture: CaptureProcess,
    tmp_path: Path,
) -> None:
    db = database(program.SERVER)
    db.execute("CREATE DATABASE bench", "CREATE TABLE bench.t (id INT PRIMARY KEY, v INT)")
    program.grant(db)
    topics.create(broker.bootstrap, TOPIC)
    load = Load(db)
    given = program.config(db, broker, TOPIC, "exclude: *.*, include: bench.t")
    try:
        with program.running(db, tmp_path, given) as config:
            load.start()
            until(lambda: size(broker, TOPIC) > 700, "it delivers")
        stopped, sent, written = _delivered(broker), size(broker, TOPIC), load.written
        ((file, position),) = db.execute(
            "SELECT binlog_file, binlog_position FROM maxwell.positions"
        )
        until(lambda: load.written > written + 100, "rows that nobody delivers")
        (tmp_path / "password").write_text(program.USER)
        upstream, feed = _imported(config, f"{file}:{position}", tmp_path)
        done = capture.cli(*upstream[2:])
        if done.returncode:
            # It may lie in a transaction, such as the one by which Maxwell writes its heartbeat.
            within = re.search(r"hint: (\S+:\d+), where the transaction begins", done.stderr)
            assert within is not None, done.stdout + done.stderr
            upstream, feed = _imported(config, within[1], tmp_path)
            done = capture.cli(*upstream[2:])
        assert done.returncode == 0, done.stdout + done.stderr
        done = capture.cli(*feed[2:])
        assert done.returncode == 0, done.stdout + done.stderr
        until(lambda: size(broker, TOPIC) > sent + 900, "it goes on")
        load.stop()
        capture.wait_checkpoint("maxwell")
        found = _delivered(broker)
        assert found.keys() == load.events.keys()
        twice = [id for id in load.events if found[id] != load.events[id]]
        # What Maxwell had sent behind the place that it wrote down comes again, and nothing else.
        assert set(twice) <= stopped.keys()
        assert len(twice) < len(stopped) / 2
        for id in twice:
            wanted = load.events[id]
            assert found[id][-len(wanted) :] == wanted
    finally:
        load.stop()
        for path in ("/changefeeds/", "/upstreams/"):
            capture.api("DELETE", path + "maxwell")
        db.execute("DROP DATABASE bench")
