"""The demo: ``python -m bench.demo``; exit code 0 only if everything is proven."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

# Kernels come out of the cache that set-up filled; the server inherits this.
os.environ.setdefault(
    "NUMBA_CACHE_DIR",
    str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate/numba"),
)

from bench.demo import filtered, schemas
from bench.demo.capture import Capture, CommandFailed
from bench.demo.changes import Changes
from bench.demo.lag_plot import lag_plot
from bench.demo.report import Report
from bench.demo.timeline import timeline
from bench.fold import Fold, judge
from bench.follow import Follower
from bench.looker import AWAY
from bench.target import Watcher, judge_target, wait_same
from bench.workload import Committed, Workload
from tests import servers
from tests.consumer.canal_rebuild import Wrong, rebuild
from tests.servers import Broker, Database
from tests.servers.process import data_folder

_RULES = '[filter]\nrules = ["shop.*"]\n'
_BY_KEY = '[sink]\ndispatchers = [{ matcher = ["shop.*"], partition = "index-value" }]\n'
_PARTITIONS = 4
_DATABASE = ["--innodb-buffer-pool-size=256M", "--innodb-log-file-size=128M"]
_CATCH_UP_S = 60.0
_SERVER = "mariadb-11.4"


@dataclass
class _Stage:
    """The servers, the capture between them, and who looks at both ends."""

    upstream: Database
    target: Database
    broker: Broker
    load: Workload
    changes: Changes
    capture: Capture
    fold: Fold
    follower: Follower
    watcher: Watcher


def _set_up(stack: ExitStack, report: Report, rate: float, given: Path | None) -> _Stage:
    folder, ours = data_folder(given, "demo")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    report.say("starting two MariaDB 11.4, upstream and target, and Kafka 4.1")
    upstream = stack.enter_context(servers.database(_SERVER, options=_DATABASE))
    target = stack.enter_context(servers.database(_SERVER, options=[*_DATABASE, "--server-id=2"]))
    broker = stack.enter_context(servers.broker())
    load = Workload(upstream.connect, upstream.kind, rows_per_s=rate)
    load.prepare()
    load.make_tables(target.connect)
    changes = Changes(upstream.connect, load.schema)
    changes.prepare(upstream.connect, target.connect)
    capture = Capture(folder, report.say)
    stack.callback(capture.end)
    capture.start()
    report.say(
        f"while it runs: the console is at {capture.url}/ (cdc cli --server {capture.url} console"
        " says its address with the token), dashboards for"
        f" {capture.url}/metrics are in configs/grafana"
    )
    _create(capture, folder, upstream, target, broker)
    fold = Fold(load.tables)
    follower = Follower(broker.bootstrap, "shop", fold)
    stack.callback(follower.close)
    watcher = Watcher(target.connect, load)
    stack.callback(watcher.close)
    columns = len(load.all_types.columns)
    report.say(f"{len(load.tables)} tables, one of them with {columns} columns of all types")
    return _Stage(upstream, target, broker, load, changes, capture, fold, follower, watcher)


def _create(
    capture: Capture, folder: Path, upstream: Database, target: Database, broker: Broker
) -> None:
    """One upstream, so one puller and one change log; three changefeeds that read it."""
    capture.cli("upstream", "create", "-u", "main", "--uri", upstream.uri())
    options = f"?protocol=canal-json&compression=lz4&partition-num={_PARTITIONS}"
    for feed, sink, text in (
        ("to-kafka", f"kafka://{broker.bootstrap}/shop{options}", _RULES + _BY_KEY),
        ("to-mysql", f"{target.uri()}/", _RULES),
        ("filtered", f"kafka://{broker.bootstrap}/few_{options}", filtered.CONFIG),
    ):
        config = folder / f"{feed}.toml"
        config.write_text(text)
        words = ("-c", feed, "-u", "main", "--sink-uri", sink, "--config", str(config))
        capture.cli("changefeed", "create", *words)


def _load(stage: _Stage, report: Report, seconds: float) -> Committed:
    """Half of the load, kill -9, restart at once, the other half."""
    load, began = stage.load, time.monotonic()
    load.start()
    stage.changes.start(seconds)
    report.progress(load, stage.fold, stage.watcher, began + seconds / 2)
    report.steady_end = time.time()
    report.say(f"the load goes on at {load.hold():,.0f} rows/s, as it was held up to here")
    report.say(f"kill -9 {stage.capture.kill()}    (the capture, under load)")
    report.killed = time.time()
    stage.capture.start()
    report.say(f"the capture is back after {time.time() - report.killed:.1f} s")
    report.progress(load, stage.fold, stage.watcher, max(began + seconds, time.monotonic() + 5))
    stage.changes.finish()
    committed = load.stop()
    report.load_ended, report.loaded_s = time.time(), time.monotonic() - began
    report.say(
        f"load ended: {committed.rows:,} row changes in {committed.transactions:,} transactions"
    )
    return committed


def _wait(stage: _Stage, report: Report, committed: Committed) -> None:
    """Until both ends have everything; what does not come is found by the judges."""
    with ThreadPoolExecutor(1) as beside:
        ends = (stage.upstream.connect, stage.target.connect)
        target = beside.submit(wait_same, *ends, stage.load, _CATCH_UP_S)
        arrived = stage.follower.wait(committed, timeout_s=_CATCH_UP_S)
        report.topic_done = stage.follower.received_s
        same, report.target_done = target.result()
    arrived &= stage.capture.wait_delivered("to-kafka", _CATCH_UP_S)
    same &= stage.capture.wait_delivered("to-mysql", _CATCH_UP_S)
    counted = stage.capture.wait_delivered("filtered", _CATCH_UP_S)
    for feed, complete in (("to-kafka", arrived), ("to-mysql", same), ("filtered", counted)):
        if not complete:
            report.say(f"not everything arrived; changefeed {feed} says:")
            report.say(stage.capture.cli("changefeed", "query", "-c", feed, quiet=True))


def _run(
    stack: ExitStack,
    report: Report,
    seconds: float,
    rate: float,
    given: Path | None,
    picture: Path,
) -> bool:
    stage = _set_up(stack, report, rate, given)
    committed = _load(stage, report, seconds)
    _wait(stage, report, committed)
    report.say(stage.capture.cli("changefeed", "list").rstrip())
    lines, undone = timeline(stage.capture, ("to-kafka", "to-mysql"), report.began_s)
    report.block("schema changes, made while the load ran", lines)
    report.messages(stage.follower.samples)
    report.ends(committed, stage.fold, stage.watcher)
    picture.parent.mkdir(parents=True, exist_ok=True)
    ends = {"topic": stage.fold, "target": stage.watcher}
    picture.write_text(lag_plot(ends, report.killed), "utf-8")
    report.say(f"the lag of both, drawn: {picture}")
    proven = [undone == 0, _judge_topic(stage, report, committed)]
    proven += [_judge_target(stage, report, committed), _judge_filtered(stage, report, committed)]
    code = stage.capture.stop()
    report.say(f"Ctrl-C: the capture ended with {code}")
    return all(proven) and code == 0


def _judge_topic(stage: _Stage, report: Report, committed: Committed) -> bool:
    """The load's tables folded; the others and all columns rebuilt, schema changes run as SQL."""
    connect, load = stage.upstream.connect, stage.load
    found = judge(stage.fold, committed, connect, load.schema, load.tables)
    report.verdict("the topic, folded by a consumer", found)
    with servers.database(_SERVER) as empty:
        load.make_tables(empty.connect)
        stage.changes.prepare(empty.connect)
        try:
            with empty.connect() as connection:
                others = stage.follower.others
                left = rebuild(others, _PARTITIONS, connection, watermarks=False).waiting
        except (Wrong, *AWAY) as error:
            report.say(f"the topic cannot be rebuilt: {error}")
            return False
        compared = schemas.compare(connect, empty.connect, load.schema, _loaded(load))
    report.block("", compared.lines())
    if left:
        report.say(f"{left} messages wait for schema changes that never came")
    return found.proven and compared.proven and not left


def _judge_target(stage: _Stage, report: Report, committed: Committed) -> bool:
    connect, load = stage.upstream.connect, stage.load
    found = judge_target(connect, stage.target, committed, load)
    report.verdict("the target, its rows and its own binlog", found)
    compared = schemas.compare(connect, stage.target.connect, load.schema, _loaded(load))
    report.block("", compared.lines())
    return found.proven and compared.proven


def _judge_filtered(stage: _Stage, report: Report, committed: Committed) -> bool:
    held = filtered.read(stage.broker.bootstrap)
    counts = filtered.judge(held, committed, stage.upstream.connect, stage.load.schema)
    report.block("the filtered changefeed, its messages counted", [c.line() for c in counts])
    return all(count.right for count in counts)


def _loaded(load: Workload) -> set[str]:
    return {table.name for table in load.tables}


def main() -> int:
    """Run the demo; 0 if topic and target are proven to hold what the upstream holds."""
    parser = argparse.ArgumentParser(prog="python -m bench.demo")
    parser.add_argument("--seconds", type=float, default=30, help="length of the load")
    parser.add_argument("--rate", type=float, default=20_000, help="row changes a second")
    parser.add_argument("--folder", type=Path, help="where the capture's data and log are kept")
    drawn = Path("build/demo-lag.svg")
    parser.add_argument("--picture", type=Path, default=drawn, help="where the lag is drawn")
    chosen = parser.parse_args()
    report = Report()
    # Ended from outside, it still leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with ExitStack() as stack:
            proven = _run(stack, report, chosen.seconds, chosen.rate, chosen.folder, chosen.picture)
    except (CommandFailed, servers.Unavailable, servers.StartFailed) as error:
        report.say(f"failed: {error}")
        return 1
    report.say("proven" if proven else "NOT proven: see what differs above")
    return 0 if proven else 1


if __name__ == "__main__":
    sys.exit(main())
