"""The demo of row snapshots: ``python -m bench.snapshot_demo``; 0 only if all is proven.

Five tables have rows already, one of them without a key, and are changed all the time: updates,
deletes, keys that move, a column more. Two changefeeds begin with their rows, one into a topic, one
into a server that has no table yet. Meanwhile a worker and the capture are killed.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import httpx

from bench.narration import command, exit_code, tell
from bench.snapshot_ends import judge
from bench.snapshot_load import SCHEMA, TABLES, Load, fill
from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.servers import Broker, Database
from tests.servers.process import data_folder
from tests.waiting import until

_SERVER = "mariadb-11.4"
_TOPIC = "shop_rows"
_FEEDS = ("to-table", "to-topic")
_CALM_S, _CATCH_UP_S = 3.0, 120.0
# Of each UPDATE, for some thousand changes a second over one connection.
_WIDE = 60


@dataclass
class _Stage:
    upstream: Database
    target: Database
    broker: Broker
    capture: CaptureProcess
    load: Load
    began_s: float

    def note(self, line: str) -> None:
        """Print what happens with its time."""
        tell(f"[{time.monotonic() - self.began_s:6.1f} s] {line}")

    def snapshot(self, feed: str) -> dict[str, Any]:
        """How far the rows of a changefeed are; empty while nobody answers."""
        with suppress(httpx.HTTPError, OSError):
            answer = self.capture.api("GET", f"/changefeeds/{feed}")
            if answer.is_success:
                return dict(answer.json()["snapshot"] or {})
        return {}


def _set_up(stack: ExitStack, rows: int, seed: int) -> _Stage:
    began = time.monotonic()
    tell("starting two MariaDB 11.4, Kafka 4.1 and a capture")
    upstream = stack.enter_context(servers.database(_SERVER))
    target = stack.enter_context(servers.database(_SERVER, options=["--server-id=2"]))
    broker = stack.enter_context(servers.broker())
    most = fill(upstream, rows)
    topics.create(broker.bootstrap, _TOPIC)
    folder, _ = data_folder(None, "snapshot-demo")
    capture = CaptureProcess(folder)
    stack.callback(capture.close)
    capture.start()
    command(capture, "upstream", "create", "-u", "main", "--uri", upstream.uri())
    load = Load(upstream, most, seed, wide=_WIDE)
    return _Stage(upstream, target, broker, capture, load, began)


def _create(stage: _Stage, rows: int) -> None:
    """Two changefeeds that begin with the rows; slow enough for something to happen meanwhile."""
    pace = f"[snapshot]\nchunk-rows = 2000\nmax-rows-per-second = {max(1, rows // 6)}\n"
    config = f'force-replicate = true\n[filter]\nrules = ["{SCHEMA}.*"]\n{pace}'
    sinks = {
        "to-table": (f"mysql://root@127.0.0.1:{stage.target.port}/", "create-tables = true\n"),
        "to-topic": (f"kafka://{stage.broker.bootstrap}/{_TOPIC}?protocol=canal-json", ""),
    }
    for feed, (sink, more) in sinks.items():
        file = stage.capture.folder / f"{feed}.toml"
        file.write_text(config + more)
        words = ("-c", feed, "-u", "main", "--sink-uri", sink, "--config", str(file))
        command(stage.capture, "changefeed", "create", *words, "--snapshot", "initial")


def _disturb(stage: _Stage, rows: int) -> None:
    """Kill what reads and what leads, and change a table, while rows are copied and delivered."""
    capture = stage.capture

    def read(share: float) -> bool:
        return any(stage.snapshot(f).get("rows", 0) > share * rows for f in _FEEDS)

    until(lambda: read(0.2), "rows are read", _CATCH_UP_S)
    stage.note(f"{_shown(stage)}   kill -9 of a worker")
    _kill_worker(stage)
    until(lambda: read(0.4), "more rows are read", _CATCH_UP_S)
    stage.note(f"{_shown(stage)}   ALTER TABLE accounts ADD COLUMN note VARCHAR(9) DEFAULT 'new'")
    stage.upstream.execute(
        "ALTER TABLE accounts ADD COLUMN note VARCHAR(9) DEFAULT 'new'", database=SCHEMA
    )
    until(lambda: read(0.6), "more rows are read", _CATCH_UP_S)
    stage.note(f"{_shown(stage)}   kill -9 of the capture")
    capture.kill()
    capture.start()
    stage.note("the capture is back; what was not read to its end is read anew")
    states = ("delivering", "delivered")
    until(
        lambda: any(stage.snapshot(f).get("state") in states for f in _FEEDS),
        "rows are delivered",
        _CATCH_UP_S,
    )
    stage.note("rows are delivered   kill -9 of a worker")
    _kill_worker(stage)
    for feed in _FEEDS:
        done = until(lambda f=feed: _delivered(stage, f), "all rows are delivered", _CATCH_UP_S)
        stage.note(f"{feed}: {done['rows']:,} rows delivered, as of ts {done['ts']}")


def _kill_worker(stage: _Stage) -> None:
    until(stage.capture.workers, "there are workers")[0].kill()


def _delivered(stage: _Stage, feed: str) -> dict[str, Any] | None:
    found = stage.snapshot(feed)
    return found if found.get("state") == "delivered" else None


def _shown(stage: _Stage) -> str:
    """One line: how far both are, and how long they may take."""
    parts = []
    for feed in _FEEDS:
        found = stage.snapshot(feed)
        reading = found.get("reading") or {}
        left = reading.get("seconds_left")
        rest = f", {left} s left" if left is not None else ""
        parts.append(
            f"{feed} {found.get('rows', 0):,} of {reading.get('rows_expected', 0):,}{rest}"
        )
    return "; ".join(parts)


def _judge(stage: _Stage) -> bool:
    """Print what both ends have, and whether it is what was promised."""
    # Of millions of rows most of the time would go to looking for cycles, of which they have none.
    gc.disable()
    messages = topics.records(stage.broker.bootstrap, [_TOPIC])
    # One after the other: of millions all at once would not fit into memory.
    bodies = (json.loads(value or b"null") for *_, value in messages)
    verdict = judge([stage.upstream], stage.target, SCHEMA, {"topic": bodies})
    kinds, seconds = stage.load.kinds, stage.load.seconds
    rate = f"{kinds.total() / seconds:,.0f} a second"
    tell(f"{stage.load.made:,} transactions in {seconds:.0f} s; rows: {dict(kinds)}, {rate}")
    for line in verdict.lines():
        tell(line)
    tell(f"{len(messages):,} messages; histories of keys that are broken: {verdict.disordered}")
    if stage.load.failed:
        tell(f"the load failed: {stage.load.failed}")
    return verdict.proven and stage.load.failed is None


def _run(stack: ExitStack, rows: int, seed: int) -> bool:
    stage = _set_up(stack, rows, seed)
    with stage.load:
        stage.note(
            f"{sum(int(rows * t[2]) for t in TABLES.values()):,} rows in 5 tables, under load"
        )
        _create(stage, rows)
        _disturb(stage, rows)
        time.sleep(_CALM_S)
    for feed in _FEEDS:
        stage.capture.wait_checkpoint(feed, timeout_s=_CATCH_UP_S)
    stage.note("all is delivered; the load has ended")
    proven = _judge(stage)
    tell(f"{time.monotonic() - stage.began_s:.0f} s")
    return proven


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if both ends hold what the upstream holds, and all histories are whole."""
    parser = argparse.ArgumentParser(prog="python -m bench.snapshot_demo")
    parser.add_argument("--rows", type=int, default=200_000, help="that are there already")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    return exit_code(lambda stack: _run(stack, chosen.rows, chosen.seed))


if __name__ == "__main__":
    sys.exit(main())
