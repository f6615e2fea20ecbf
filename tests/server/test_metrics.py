"""What is scraped goes on with time, and ends with what it is about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cdc.base import measures
from cdc.coord.contract import StoreFailed
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.measured import MeasuredStore
from cdc.coord.messages import (
    DdlEntries,
    DdlEntry,
    DdlState,
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    ShardStand,
    SnapshotProgress,
    TableRead,
    TableReadState,
    UpstreamStatus,
)
from cdc.server.metrics import Metrics
from cdc.server.processes import ProcessesScraped

NOW = 1_700_000_000_000
READ = SnapshotProgress(
    rows=300,
    rows_expected=1300,
    rows_per_second=10.0,
    reads=[TableRead(name="s.t", state=TableReadState.READING)],
)


class _Clock:
    def __init__(self) -> None:
        self.ms = NOW

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


def _ts(seconds_ago: float) -> int:
    return int(NOW - seconds_ago * 1000) << 18


def _info(name: str, **more: object) -> FeedInfo:
    start = {"id": name, "upstream": "u", "sink_uri": "mysql://u:pw@h/", "start_ts": 1}
    return FeedInfo.model_validate(start | more)


def _samples(metrics: Metrics) -> dict[str, float]:
    lines = (x.rpartition(" ") for x in metrics.text().decode().splitlines() if x[0] != "#")
    return {name: float(value) for name, _, value in lines}


def test_a_changefeed_as_its_owner_sees_it() -> None:
    clock = _Clock()
    metrics = Metrics(clock)
    tables = {f"s.t{n}": _ts(100 + n) for n in range(30)}
    status = FeedStatus(checkpoint_ts=_ts(129), resolved_ts=_ts(2), tables=tables)
    held = DdlEntry(ts=1, sql="x", state=DdlState.HELD, since_ms=NOW - 50_000)
    waits = DdlEntry(ts=2, sql="x", since_ms=NOW - 7_000)
    stands = {
        ts: ShardStand(group="all.t", table=table, came=came)
        # The next change of a table counts, and not those behind it.
        for ts, table, came in ((1, "s.t1", True), (2, "s.t2", False), (3, "s.t1", False))
    }
    ddls = DdlEntries(
        pending=[waits, held],
        executed=3,
        ignored=2,
        shard_stands=stands,
        shard_missing={"all.t": ["s.t3", "s.t4", "s.t5"]},
    )
    metrics.observe_feed(_info("a", state=FeedState.WARNING), status, ddls, {"7": READ})
    clock.sleep(10)
    found = _samples(metrics)
    of = '{changefeed="a"}'
    assert found[f"tidegate_changefeed_state{of}"] == 6
    assert found[f"tidegate_changefeed_checkpoint_ts{of}"] == NOW - 129_000
    # Nobody has said anything for ten seconds: ages go on.
    assert found[f"tidegate_changefeed_checkpoint_lag_seconds{of}"] == 139
    assert found[f"tidegate_changefeed_resolved_lag_seconds{of}"] == 12
    assert found[f"tidegate_changefeed_oldest_ddl_seconds{of}"] == 60
    assert found[f"tidegate_changefeed_waiting_tables{of}"] == 30
    slow = {k: v for k, v in found.items() if k.startswith("tidegate_changefeed_table_lag")}
    assert sorted(slow.values()) == [110 + n for n in range(20, 30)]
    assert found['tidegate_changefeed_pending_ddls{changefeed="a",state="held"}'] == 1
    for stand, count in (("came", 1), ("late", 1), ("missing", 3)):
        name = f'tidegate_changefeed_shard_ddl_tables{{changefeed="a",stand="{stand}"}}'
        assert found[name] == count
    copied = '{changefeed="a",snapshot="7"}'
    for name, value in (("read_rows", 300), ("expected_rows", 1300), ("left_seconds", 100)):
        assert found[f"tidegate_changefeed_snapshot_{name}{copied}"] == value
    assert found['tidegate_changefeed_ddls_total{changefeed="a",result="executed"}'] == 3
    about = '{changefeed="a",sink="mysql",upstream="u"}'
    assert found[f"tidegate_changefeed_info{about}"] == 1
    assert b"pw" not in metrics.text()


def test_series_end_with_what_they_are_about() -> None:
    metrics = Metrics(_Clock())
    error = ErrorInfo(code="TG:ErrX", kind="transient", message="m", time_ms=5)
    for name in ("going", "staying"):
        metrics.observe_feed(
            _info(name, error=error), FeedStatus(checkpoint_ts=1), DdlEntries(), {}
        )
        # The same error is seen at each tick, and counts once.
        metrics.observe_feed(
            _info(name, error=error), FeedStatus(checkpoint_ts=1), DdlEntries(), {}
        )
        metrics.observe_upstream(name, UpstreamStatus(error=error))
        for metric in measures.made():
            for label in ("changefeed", "upstream"):
                if metric._labelnames == (label,):
                    getattr(metric.labels(name), "observe", None) or metric.labels(name).inc()
    errors = 'tidegate_changefeed_errors_total{changefeed="going",code="TG:ErrX"}'
    assert _samples(metrics)[errors] == 1
    metrics.forget_feed("going")
    # A tick or a window that was under way says something once more: the next turn ends that, too.
    metrics.observe_feed(_info("going"), FeedStatus(checkpoint_ts=1), DdlEntries(), {})
    measures.ROWS.labels("going").inc()
    metrics.keep_feeds({"staying"}, 2)
    assert b'changefeed="going"' not in metrics.text()
    assert b'changefeed="staying"' in metrics.text()
    assert _samples(metrics)["tidegate_cluster_captures"] == 2
    metrics.forget_upstream("going")
    assert b'upstream="going"' not in metrics.text()
    assert b'upstream="staying"' in metrics.text()


def test_the_store_is_timed_and_its_failures_counted(tmp_path: Path) -> None:
    class Broken:
        def get(self, key: str) -> None:
            raise StoreFailed("no", object="store")

    clock = _Clock()
    count = measures.STORE_FAILURES.labels("get")._value
    before = count.get()
    with pytest.raises(StoreFailed):
        MeasuredStore(Broken(), clock).get("k")  # type: ignore[arg-type]
    assert count.get() == before + 1
    store = MeasuredStore(EmbeddedStore(tmp_path / "meta.db", clock), clock)
    assert store.range("") == (store.revision(), [])
    store.close()


_PARENT = """
import subprocess, sys
spin = "import time\\nwhile time.process_time() < 0.3: pass\\nprint(flush=True)\\ninput()"
pipe = subprocess.PIPE
with subprocess.Popen([sys.executable, "-c", spin], stdin=pipe, stdout=pipe) as child:
    child.stdout.readline()
    print(flush=True)
    input()
    child.communicate(b"\\n")
print(flush=True)
input()
"""


def test_processor_time_of_processes_that_end_stays_counted() -> None:
    """A process with one child: our own has servers of other tests below it."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdin=pipe, stdout=pipe) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdout.readline()
        scraped = ProcessesScraped(parent.pid)
        cpu, memory, count = scraped.collect()
        used = {s.labels["process"]: s.value for s in cpu.samples}
        assert used["jvm"] >= 0.25
        large = {s.labels["process"] for s in memory.samples if s.value > 1 << 20}
        assert large == {"capture", "jvm"}
        assert {s.labels["process"]: s.value for s in count.samples} == {"capture": 1, "jvm": 1}
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        parent.stdout.readline()
        cpu, _, count = scraped.collect()
        after = {s.labels["process"]: s.value for s in cpu.samples}
        assert after["jvm"] == used["jvm"]
        assert "jvm" not in {s.labels["process"] for s in count.samples}
        parent.communicate(b"\n")
