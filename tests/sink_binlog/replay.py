"""A log through the binlog sink, with an owner's part played here, and its files into a server."""

from __future__ import annotations

import re
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from cdc.base.ids import FeedId
from cdc.changelog.reader import ChangeLog
from owner.ddl_log import DdlLog
from processor.window_size import WindowSize
from sink.contract import RECOVERY_BITS
from sink.open import open_sink
from sink.schema_change import SchemaChange
from tests.processor.in_process import InProcessJobs, Running, WorkerDied
from tests.servers import Database
from tests.waiting import until


def changes(folder: Path, start_ts: int, schemas: set[str]) -> list[SchemaChange]:
    """Return the changes of a log that are about these schemas."""
    with closing(DdlLog(ChangeLog.open(folder))) as log:
        found = [ddl.change for ddl in log.ddls(start_ts, log.resolved_ts())]
    assert None not in found
    return [c for c in found if c and schemas & {*c.schemas, *(s for s, _ in c.tables)}]


def deliver(
    folder: Path, uri: str, rules: list[str], start_ts: int, *, epoch: int = 1,
    jobs: InProcessJobs | None = None, window: int = 64 << 10,
    **config: Any,
) -> None:  # fmt: skip
    """Deliver all of a log's rows, and its changes in their places."""
    settings = {"filter": {"rules": rules}, "sink": config, "force_replicate": True}
    told = changes(folder, start_ts, {rule.split(".")[0] for rule in rules})
    feed = FeedId("", "feed", 0)
    running = Running(
        folder, uri, settings, jobs or InProcessJobs(), start_ts=start_ts, epoch=epoch,
        window_size=WindowSize(window, window), barrier_ts=start_ts,
    )  # fmt: skip
    sink = open_sink(uri, config)
    changer = sink.changer(feed, epoch << RECOVERY_BITS)
    try:
        recorded = changer.take_over()
        for change in told:
            _reach(running, change.ts - 1)
            while change.ts not in recorded:
                try:
                    changer.execute(change)
                    break
                except WorkerDied:
                    changer = sink.changer(feed, epoch << RECOVERY_BITS)
                    recorded = changer.take_over()
        _reach(running, running.upto)
    finally:
        running.stop()
        changer.close()


def _reach(running: Running, ts: int) -> None:
    running.hold({}, ts)

    def there() -> bool:
        assert running.feed.alive, running.reports[-1].error
        return bool(running.reports) and running.reports[-1].checkpoint_ts >= ts

    until(there, f"ts {ts}", 60)


def printed(db: Database, files: list[Path], *options: str) -> str:
    """Return what the server's own tool makes of files; it must not complain."""
    run = subprocess.run(
        [*db.tool("mysqlbinlog"), "--verify-binlog-checksum", *options, *map(str, files)],
        capture_output=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    return run.stdout.decode("utf-8", "replace")


def replay(db: Database, files: list[Path], *options: str) -> None:
    """Give files to a server as its own tools do; as transactions of its own, as it had them."""
    sql = printed(db, files, *(["--skip-gtids"] if db.kind == "mysql" else []), *options)
    sql = re.sub(r"^.*SET @@session\.gtid_seq_no=.*$", "", sql, flags=re.M)
    run = subprocess.run(
        [*db.tool("mysql"), "-uroot", f"--socket={db.socket}", "--binary-mode"],
        input=sql.encode(), capture_output=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr.decode()[-2000:]


def files_of(root: Path, name: str = "binlog") -> list[Path]:
    """Return the files that the index lists, in its order."""
    listed = (root / f"{name}.index").read_text().split()
    found = [(root / line) for line in listed]
    assert sorted(found) == sorted(root.glob(f"{name}.[0-9]*"))
    return found
