"""The demo: ``python -m bench.demo``; exit code 0 only if everything is proven."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

# Kernels come out of the cache that set-up filled; the server inherits this.
os.environ.setdefault(
    "NUMBA_CACHE_DIR",
    str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate/numba"),
)

from bench.demo.capture import Capture, CommandFailed
from bench.demo.report import Report
from bench.fold import Fold, judge
from bench.follow import Follower
from bench.workload import Workload
from tests import servers
from tests.servers.process import data_folder

_CONFIG = """\
[filter]
rules = ["shop.*"]

[sink]
dispatchers = [{ matcher = ["shop.*"], partition = "index-value" }]
"""
_PARTITIONS = 4


def _load(report: Report, load: Workload, capture: Capture, fold: Fold, seconds: float) -> None:
    """Half of the load, kill -9, restart at once, the other half."""
    began = time.monotonic()
    load.start()
    report.progress(load, fold, began + seconds / 2)
    report.steady_end = time.time()
    report.say(f"kill -9 {capture.kill()}    (the capture, under load)")
    report.killed = time.time()
    capture.start()
    report.say(f"the capture is back after {time.time() - report.killed:.1f} s")
    report.progress(load, fold, max(began + seconds, time.monotonic() + 5))
    report.loaded_s = time.monotonic() - began


def _run(stack: ExitStack, report: Report, seconds: float, rate: float, given: Path | None) -> bool:
    say = report.say
    folder, ours = data_folder(given, "demo")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    say("starting MariaDB 11.4 and Kafka 4.1")
    options = ["--innodb-buffer-pool-size=256M"]
    database = stack.enter_context(servers.database("mariadb-11.4", options=options))
    broker = stack.enter_context(servers.broker())
    load = Workload(database.connect, database.kind, rows_per_s=rate)
    load.prepare()
    capture = Capture(folder, say)
    stack.callback(capture.end)
    capture.start()
    capture.cli("upstream", "create", "-u", "main", "--uri", database.uri())
    config = folder / "changefeed.toml"
    config.write_text(_CONFIG)
    sink = f"kafka://{broker.bootstrap}/shop?protocol=canal-json&compression=lz4"
    sink += f"&partition-num={_PARTITIONS}"
    words = ("-c", "demo", "-u", "main", "--sink-uri", sink, "--config", str(config))
    capture.cli("changefeed", "create", *words)
    fold = Fold(load.tables)
    follower = Follower(broker.bootstrap, "shop", fold)
    stack.callback(follower.close)
    columns = len(load.all_types.columns)
    say(f"{len(load.tables)} tables, one of them with {columns} columns of all types")
    _load(report, load, capture, fold, seconds)
    committed = load.stop()
    say(f"load ended: {committed.rows:,} row changes in {committed.transactions:,} transactions")
    complete = follower.wait(committed, timeout_s=60)
    report.caught_up = follower.received_s
    if not complete:
        say("not everything arrived; the changefeed says:")
        say(capture.cli("changefeed", "query", "-c", "demo", quiet=True))
    say(capture.cli("changefeed", "list").rstrip())
    report.messages(follower.samples)
    verdict = judge(fold, committed, database.connect, load.schema, load.tables)
    report.figures(committed, fold)
    for line in verdict.lines():
        say(line)
    code = capture.stop()
    say(f"Ctrl-C: the capture ended with {code}")
    return verdict.proven and code == 0


def main() -> int:
    """Run the demo; 0 if the topic is proven to hold what the upstream holds."""
    parser = argparse.ArgumentParser(prog="python -m bench.demo")
    parser.add_argument("--seconds", type=float, default=30, help="length of the load")
    parser.add_argument("--rate", type=float, default=20_000, help="row changes a second")
    parser.add_argument("--folder", type=Path, help="where the capture's data and log are kept")
    chosen = parser.parse_args()
    report = Report()
    # Ended from outside, it still leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with ExitStack() as stack:
            proven = _run(stack, report, chosen.seconds, chosen.rate, chosen.folder)
    except (CommandFailed, servers.Unavailable, servers.StartFailed) as error:
        report.say(f"failed: {error}")
        return 1
    report.say("proven" if proven else "NOT proven: see what differs above")
    return 0 if proven else 1


if __name__ == "__main__":
    sys.exit(main())
