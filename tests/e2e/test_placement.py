"""Upstreams on several captures at once: they work beside each other, move, and are taken over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.beside import WritesBeside
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.test_failover import captures_of, delivered
from tests.servers import Database
from tests.servers.etcd import Etcd
from tests.waiting import until

pytestmark = pytest.mark.real
_NAMES = ("a", "b")


class Inserts(WritesBeside):
    """Writes rows into the tables of some databases."""

    def __init__(self, server: Database, schemas: list[str]) -> None:
        super().__init__(server)
        self._schemas = schemas

    def _write(self) -> None:
        for schema in self._schemas:
            self._server.execute(f"INSERT INTO t VALUES ({self.written}, 0)", database=schema)
        self.written += 1


def _id(capture: CaptureProcess) -> str:
    return str(capture.ask("GET", "/status")["id"])


def _places(capture: CaptureProcess) -> dict[str, list[str]]:
    """Upstreams by capture, as a capture shows them."""
    return {c["id"]: c["upstreams"] for c in capture.ask("GET", "/captures")["items"]}


def test_upstreams_are_spread_move_and_are_taken_over(
    etcd: Etcd, mariadb: Database, schema_name: str, tmp_path: Path
) -> None:
    schemas = [f"{schema_name}_{name}" for name in _NAMES]
    for schema in schemas:
        mariadb.execute(f"CREATE DATABASE {schema}")
        mariadb.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=schema)
    roots = [tmp_path / f"out-{name}" for name in _NAMES]
    captures = captures_of(etcd, tmp_path, f"placed-{schema_name}")
    first, second = captures
    load = Inserts(mariadb, schemas)

    def goes_on() -> None:
        """Both are delivered."""
        before = [sum(delivered(root).values()) for root in roots]
        for root, had in zip(roots, before, strict=True):
            until(lambda r=root, n=had: sum(delivered(r).values()) > n + 20, "rows", 90)

    def runs_at(feed: str) -> list[str]:
        shown: list[dict[str, Any]] = first.ask("GET", f"/changefeeds/{feed}")["task_status"]
        return [task["capture_id"] for task in shown]

    try:
        for capture in captures:
            capture.start(ready=False)
        for capture in captures:
            capture.await_ready()
        until(lambda: len(_places(first)) == 2, "both are known")
        for name, schema, root in zip(_NAMES, schemas, roots, strict=True):
            # Both are asked for at one capture, which forwards what belongs to the other.
            first.register(name, mariadb.uri())
            sink = f"file://{root}?protocol=canal-json&flush-interval=100ms"
            first.create(f"feed-{name}", name, sink, [f"{schema}.*"])
        ids = {_id(c): c for c in captures}
        until(lambda: sorted(map(len, _places(second).values())) == [1, 1], "one at each")
        load.start()
        goes_on()
        at = {name: runs_at(f"feed-{name}") for name in _NAMES}
        assert sorted(at["a"] + at["b"]) == sorted(ids)
        # Whoever is asked, its log is found.
        for capture in captures:
            for name in _NAMES:
                read = capture.ask("GET", f"/changefeeds/feed-{name}/synced")
                assert read["last_synced_ts"] > "2"
        # Both at one of them, under load.
        stays, moves = at["a"][0], at["b"][0]
        done = ids[moves].cli("upstream", "move", "-u", "b", "--capture", stays)
        assert done.returncode == 0, done.stderr
        until(lambda: runs_at("feed-b") == [stays], "it has moved")
        goes_on()
        assert (
            "TG:ErrCaptureNotExist"
            in first.cli("upstream", "move", "-u", "b", "--capture", "nobody").stderr
        )
        # And all at the other one.
        other = ids[moves]
        ids[stays].kill()
        until(lambda: _places(other) == {moves: list(_NAMES)}, "the other one has both", 90)
        goes_on()
        load.stop()
        for name in _NAMES:
            other.wait_checkpoint(f"feed-{name}")
        # It has nothing of them any more, and both of their logs from before.
        logs = ids[stays].data_dir / "log"
        assert sorted(f.name for f in logs.iterdir()) == list(_NAMES)
        ids[stays].start(ready=False)
        until(lambda: not list(logs.iterdir()), "what it has left is removed", 60)
    finally:
        load.stop()
        for capture in captures:
            capture.close()
    for root in roots:
        rows = delivered(root)
        assert {n for n in rows.values() if n != 1} == set(), "delivered twice"
        assert len(rows) == load.written, "lost"
