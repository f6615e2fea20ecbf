"""``owner_tick_100k``: a turn of the owner with one changefeed over 100,000 tables.

The owner's runner, with its store and a change log whose snapshot has tables of ten columns in
5,000 databases, in a process of its own; what a processor would say is written into the store. A
turn is timed when the changefeed tells progress, and when the log has an ALTER more, which is read,
judged, held by a barrier, carried out, and passed. The limits are the design's: 50 ms and 2 GB.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.processes import figures_of, most_bytes
from bench.schema import table_text
from bench.settings import Settings
from cdc.base.ts import Ts
from sink.blackhole.sink import BlackholeChanger

_TABLES, _TABLES_EACH = 100_000, 20
_LIMIT_MS, _LIMIT_BYTES = 50.0, 2e9
_TURNS, _ALTERS = 200, 30
# The first of them load what is loaded once.
_WARMED = 3
_PASSED_S = 60.0


def owner_tick(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Medians of turns, and the most memory; ``--rows`` is the number of tables."""
    count = settings.rows or _TABLES
    found = []
    for _ in range(settings.runs):
        found.append(one := figures_of("bench.owner_tick", count))
        print(
            f"owner_tick_100k: {count:,} tables, progress {one['progress_ms']:.2f} ms,"
            f" ALTER {one['alter_ms']:.2f} ms (longest {one['longest_ms']:.1f}), first turn"
            f" {one['first_ms']:.0f} ms, {one['bytes'] / 1e9:.2f} GB"
        )

    def median(name: str) -> float:
        return statistics.median(run[name] for run in found)

    figures = [
        Figure.less("owner_tick_100k", median("progress_ms"), "ms", "target", _LIMIT_MS),
        Figure.less("owner_tick_100k_alter", median("alter_ms"), "ms", "target", _LIMIT_MS),
        Figure.less(
            "owner_tick_100k_memory", median("bytes") / 1e9, "GB", "target", _LIMIT_BYTES / 1e9
        ),
    ]
    return figures, {"owner_tick_100k": {"tables": count, "runs": found}}


def _measured(count: int, folder: Path) -> dict[str, float]:
    from cdc.base.clock import SystemClock
    from cdc.base.ts import compose
    from cdc.changelog.settings import ChangelogSettings
    from cdc.changelog.writer import LogWriter
    from cdc.coord.contract import Put
    from cdc.coord.embedded import EmbeddedStore
    from cdc.coord.keys import Keys
    from cdc.coord.messages import Assignment, CaptureInfo, FeedInfo, Report, UpstreamInfo
    from owner import admin
    from owner.concerned import EVERY, Concerned
    from owner.ddl_log import DdlLogs
    from owner.guards import OwnersGuards
    from owner.runner import OwnerRunner
    from tests.changelog.events import format_description
    from tests.changelog.logs import ddl

    clock, keys = SystemClock(), Keys()
    store = EmbeddedStore(folder / "meta.db", clock)
    upstream = UpstreamInfo(name="u", uri="mysql://h")
    capture = CaptureInfo(id="c", address="x")
    start = compose(clock.now_ms())
    info = FeedInfo(
        id="f", upstream="u", sink_uri="kafka://h/t?protocol=canal-json", start_ts=start
    )
    store.txn(
        [],
        [
            Put(keys.owner, b"c"),
            Put(keys.capture("c"), capture.model_dump_json().encode()),
            Put(keys.upstream_info("u"), upstream.model_dump_json().encode()),
        ],
    )
    owner = store.get(keys.owner)
    assert owner is not None
    writer = LogWriter.open(folder / "log", ChangelogSettings(), clock)
    writer.set_format(format_description())
    writer.begin(start, {})
    schemas = -(-count // _TABLES_EACH)
    writer.save_snapshot(
        start,
        {
            "ts": start,
            "server": {"kind": "mariadb", "version": "11.4.2"},
            "databases": {f"d{n}": {} for n in range(schemas)},
            "tables": {f"d{n % schemas}.t{n}": table_text(n) for n in range(count)},
        },
    )
    logs = DdlLogs(lambda _: folder / "log", lambda _: upstream)
    runner = OwnerRunner(
        store, keys, OwnersGuards(store, keys, owner.create_revision), logs.log,
        lambda _: BlackholeChanger(), clock,
    )  # fmt: skip
    admin.create(store, keys, info)

    def turn(concerned: Concerned = EVERY) -> float:
        began = time.perf_counter()
        runner.turn(concerned)
        return (time.perf_counter() - began) * 1000

    def told() -> Assignment:
        entry = store.get(keys.assignment("c", "f"))
        assert entry is not None
        return Assignment.model_validate_json(entry.value)

    def report(ts: Ts) -> float:
        said = Report(
            feed="f", epoch=told().epoch, checkpoint_ts=ts, resolved_ts=ts, running=True,
            barrier_ts=told().barrier_ts,
        )  # fmt: skip
        store.txn([], [Put(keys.report("c", "f"), said.model_dump_json().encode())], durable=False)
        return turn(Concerned(progress=frozenset({"f"})))

    def passed(ts: Ts) -> list[float]:
        """The turns until a schema change at ``ts`` is behind the changefeed."""
        took, end = [turn()], time.monotonic() + _PASSED_S
        while (upto := min(told().judged_ts, told().barrier_ts)) < ts:
            assert time.monotonic() < end, told()
            took += [report(min(upto, ts)), turn()]
        return [*took, report(ts)]

    first_ms = turn()
    ts = start + 10
    writer.commit(ts, {})
    passed(ts)
    progress, alters = list[float](), list[float]()
    for _ in range(_TURNS):
        ts += 1
        writer.commit(ts, {})
        turn()
        progress.append(report(ts))
    for n in range(_WARMED + _ALTERS):
        ts += 10
        ddl(writer, ts, f"ALTER TABLE d{n}.t{n} ADD COLUMN c INT")
        writer.commit(ts, {})
        alters.append(max(passed(ts)))
    runner.stop()
    writer.close()
    store.close()
    return {
        "first_ms": first_ms,
        "progress_ms": statistics.median(progress),
        "alter_ms": statistics.median(alters[_WARMED:]),
        "longest_ms": max(alters[_WARMED:]),
        "bytes": most_bytes(),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as made:
        print(json.dumps(_measured(int(sys.argv[1]), Path(made))))
