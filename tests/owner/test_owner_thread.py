"""The owner's thread over a real log and store: how soon a DDL is judged, and what goes wrong."""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.base.ts import compose
from cdc.base.turn_line import TurnLine
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.coord.contract import Compare, Delete, Op, Put
from cdc.coord.keys import Keys
from cdc.coord.messages import (
    Assignment,
    CaptureInfo,
    DdlEntries,
    DdlEntry,
    DdlState,
    FeedInfo,
    FeedState,
    FeedStatus,
    Report,
    UpstreamInfo,
)
from owner import admin, runner
from owner.concerned import EVERY, NOTHING, Concerned, concerned
from owner.ddl_log import DdlLogs
from owner.executor import Executor
from owner.guards import OwnersGuards
from owner.runner import OwnerRunner
from owner.tick import Effects, FeedInput, FeedTick
from sink.schema_change import Recorded, SchemaChange, SchemaChanger
from tests.changelog.events import format_description
from tests.changelog.logs import ddl
from tests.server.failing_store import FailingStore
from tests.waiting import until


class Nothing:
    """A sink that never had a schema change."""

    def take_over(self) -> dict[int, Recorded]:
        """Nothing is recorded."""
        return {}

    def ties(self) -> tuple[tuple[str, str], ...]:
        """Nothing is tied."""
        return ()

    def execute(self, change: SchemaChange) -> None:
        """There are none."""
        raise NotImplementedError

    skip = execute

    def forget_below(self, ts: int) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """There is nothing to close."""


@dataclass
class Owned:
    """An owner's thread over a store and a log; the changefeed is not there yet."""

    store: PowerStore
    runner: OwnerRunner
    keys: Keys
    writer: LogWriter
    start: int

    def create(self, feed: str = "f") -> None:
        """Create a changefeed of ``shop``."""
        sink = "kafka://h/t?protocol=canal-json"
        config = {"filter": {"rules": ["shop.*"]}}
        info = FeedInfo(id=feed, upstream="u", sink_uri=sink, config=config, start_ts=self.start)
        admin.create(self.store, self.keys, info)

    def put(self, key: str, value: bytes) -> None:
        """Write any value."""
        self.store.txn([], [Put(key, value)])

    def value(self, key: str) -> bytes:
        """Return what a key holds."""
        entry = self.store.get(key)
        return entry.value if entry else b""

    def told(self, feed: str = "f") -> Assignment | None:
        """Return what the processor is told."""
        value = self.value(self.keys.assignment("c", feed))
        return Assignment.model_validate_json(value) if value else None

    def judged(self) -> int:
        """Return up to which ts the DDLs of the log are judged for ``f``."""
        told = self.told()
        return told.judged_ts if told else 0

    def resolve(self, ts: int) -> float:
        """A DDL of others at ``ts``; return the seconds until it was judged."""
        key = self.keys.assignment("c", "f")
        watch = self.store.watch(key, self.store.revision() + 1)
        began = time.monotonic()
        ddl(self.writer, ts, "CREATE TABLE other.t (i INT)")
        self.writer.commit(ts, {})
        committed = time.monotonic()
        while self.judged() < ts:
            assert watch.next(5.0)
            assert time.monotonic() - began < 5
        return time.monotonic() - committed


class PowerStore(FailingStore):
    """``kept`` is what a loss of power would leave; ``told`` how many statuses came together."""

    def __init__(self, path: Path) -> None:
        self.kept: dict[str, bytes] = {}
        self.told: list[int] = []
        super().__init__(path)

    def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, durable: bool = True) -> bool:
        done = super().txn(compares, ops, durable=durable)
        if statuses := sum("/changefeed/status/" in op.key for op in ops):
            self.told.append(statuses)
        if done and durable:
            self.kept = {e.key: e.value for e in self.range("")[1]}
        return done


@pytest.fixture
def owned(tmp_path: Path) -> Iterator[Owned]:
    with _owned(tmp_path, Nothing()) as made:
        yield made


@contextmanager
def _owned(tmp_path: Path, changer: SchemaChanger) -> Iterator[Owned]:
    clock, keys = SystemClock(), Keys()
    store = PowerStore(tmp_path / "meta.db")
    upstream = UpstreamInfo(name="u", uri="mysql://h")
    capture = CaptureInfo(id="c", address="x")
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
    start = compose(clock.now_ms())
    writer = LogWriter.open(tmp_path / "log", ChangelogSettings(), clock)
    writer.set_format(format_description())
    writer.begin(start, {})
    server = {"kind": "mysql", "version": "8.0.33"}
    writer.save_snapshot(start, {"ts": start, "server": server, "databases": {}, "tables": {}})
    logs = DdlLogs(lambda _: tmp_path / "log", lambda _: upstream)
    guards = OwnersGuards(store, keys, owner.create_revision)
    made = OwnerRunner(store, keys, guards, logs.log, lambda _: changer, clock)
    made.start()
    try:
        yield Owned(store, made, keys, writer, start)
    finally:
        store.broken = False
        made.stop()
        writer.close()
        store.close()


def test_a_ddl_wakes_the_owner(owned: Owned) -> None:
    owned.create()
    waits = [owned.resolve(owned.start + i) for i in range(1, 60)]
    # The first ones wait for the threads to start.
    # It looks at the log once a second by itself.
    assert statistics.median(waits[10:]) < 0.25, waits


FEEDS = 100


def test_progress_of_many_changefeeds_is_written_together(owned: Owned) -> None:
    names = [f"f{n}" for n in range(FEEDS)]
    for name in names:
        owned.create(name)
    owned.writer.commit(owned.start + 9, {})

    def epochs() -> dict[str, int]:
        told = {n: a for n in names if (a := owned.told(n)) is not None and a.run}
        return {n: a.epoch for n, a in told.items()}

    until(lambda: len(epochs()) == FEEDS, "all run")
    del owned.store.told[:]
    puts = []
    for name, epoch in epochs().items():
        said = Report(feed=name, epoch=epoch, checkpoint_ts=owned.start + 9, running=True)
        puts.append(Put(owned.keys.report("c", name), said.model_dump_json().encode()))
    owned.store.txn([], puts, durable=False)

    def checkpoints() -> set[int]:
        values = [owned.value(owned.keys.feed_status(n)) for n in names]
        return {FeedStatus.model_validate_json(v).checkpoint_ts for v in values if v}

    until(lambda: checkpoints() == {owned.start + 9}, "all statuses")
    assert max(owned.store.told) > FEEDS / 2
    assert len(owned.store.told) < FEEDS / 10


def test_a_changefeed_that_is_changed_meanwhile_does_not_stop_others(
    owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own write is refused and made anew; that of the others goes on."""
    for name in ("a", "b", "c"):
        owned.create(name)
    until(lambda: all((t := owned.told(n)) and t.run for n in "abc"), "all run")
    real = runner.step
    changed: list[str] = []

    def step(tick: FeedTick, seen: FeedInput, now_ms: int) -> tuple[FeedTick, Effects]:
        if seen.info.id == "b" and seen.report is not None and not changed:
            entry = owned.store.get(owned.keys.feed_info("b"))
            assert entry is not None
            changed.append("b")
            owned.put(entry.key, entry.value)
        return real(tick, seen, now_ms)

    monkeypatch.setattr(runner, "step", step)
    owned.writer.commit(owned.start + 9, {})
    puts = []
    for name in "abc":
        told = owned.told(name)
        assert told is not None
        said = Report(feed=name, epoch=told.epoch, checkpoint_ts=owned.start + 9, running=True)
        puts.append(Put(owned.keys.report("c", name), said.model_dump_json().encode()))
    owned.store.txn([], puts, durable=False)

    def reached(name: str) -> bool:
        value = owned.value(owned.keys.feed_status(name))
        return bool(value) and (
            FeedStatus.model_validate_json(value).checkpoint_ts == owned.start + 9
        )

    until(lambda: all(map(reached, "abc")), "all statuses")
    assert changed == ["b"]


def test_a_report_ticks_its_changefeed_alone(owned: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        owned.create(name)
    owned.writer.commit(owned.start + 1000, {})
    until(lambda: all((t := owned.told(n)) and t.run for n in "ab"), "both run")
    real, ticks = runner.step, Counter[str]()

    def step(tick: FeedTick, seen: FeedInput, now_ms: int) -> tuple[FeedTick, Effects]:
        ticks[seen.info.id] += 1
        return real(tick, seen, now_ms)

    monkeypatch.setattr(runner, "step", step)
    told, key = owned.told("a"), owned.keys.feed_status("a")
    assert told is not None
    for ts in range(owned.start + 1, owned.start + 41):
        said = Report(feed="a", epoch=told.epoch, checkpoint_ts=ts, running=True)
        owned.put(owned.keys.report("c", "a"), said.model_dump_json().encode())

        def reached(ts: int = ts) -> bool:
            status = FeedStatus.model_validate_json(owned.value(key) or b'{"checkpoint_ts": 0}')
            return status.checkpoint_ts == ts

        until(reached, "its status")
    assert ticks["a"] >= 40
    # The log has moved once, and each is looked at by time.
    assert ticks["b"] < 10, ticks


@pytest.mark.parametrize(
    ("key", "what"),
    [
        (Keys().report("c", "f"), Concerned(progress=frozenset({"f"}))),
        (Keys().feed_info("f"), Concerned(feeds=frozenset({"f"}))),
        (Keys().ddl_decision("f", 7), Concerned(feeds=frozenset({"f"}))),
        (Keys().copy_order("f", "1"), Concerned(feeds=frozenset({"f"}))),
        (Keys().copy_status("f", "1"), Concerned(feeds=frozenset({"f"}))),
        (Keys().feed_status("f"), NOTHING),
        (Keys().feed_ddls("f"), NOTHING),
        (Keys().assignment("c", "f"), NOTHING),
        (Keys().acknowledged("f"), NOTHING),
        (Keys().slots("f"), NOTHING),
        (Keys().upstream_info("u"), EVERY),
        (Keys().placement("u"), EVERY),
        (Keys().puller("u"), EVERY),
        (Keys().prefix + "of/a/newer/version", EVERY),
    ],
)
def test_a_key_concerns_what_it_is_about(key: str, what: Concerned) -> None:
    assert concerned(Keys(), [key]) == what


def test_nothing_is_left_of_a_changefeed_that_is_removed(owned: Owned) -> None:
    """Also not of what its processor says once more; another one keeps all of its own."""
    for feed in ("f", "other"):
        owned.create(feed)
        until(lambda feed=feed: owned.told(feed) is not None, "it is ticked")
        said = Report(feed=feed, epoch=1, checkpoint_ts=owned.start, resolved_ts=owned.start)
        owned.put(owned.keys.report("c", feed), said.model_dump_json().encode())

    def keys(feed: str) -> set[str]:
        return {e.key for e in owned.store.range("")[1] if feed in e.key.split("/")}

    others = keys("other")
    info = owned.store.get(owned.keys.feed_info("f"))
    assert info is not None
    owned.store.txn([], [Delete(info.key)])
    until(lambda: not keys("f"), "all of it is removed")
    owned.put(owned.keys.report("c", "f"), b"{}")
    until(lambda: not keys("f"), "what came late is removed, too")
    assert keys("other") >= others


def test_a_new_owner_shows_what_had_ended_before_it(owned: Owned) -> None:
    done = DdlEntry(ts=7, sql="TRUNCATE t", kind="TRUNCATE", state=DdlState.DONE)
    shown = DdlEntries(ended=[done], executed=1)
    key = owned.keys.feed_ddls("f")
    owned.store.txn([], [Put(key, shown.model_dump_json().encode())])
    owned.create()
    owned.resolve(owned.start + 1)
    entry = owned.store.get(key)
    assert entry is not None
    assert DdlEntries.model_validate_json(entry.value) == shown


def test_a_change_is_forgotten_behind_a_checkpoint_that_stays(tmp_path: Path) -> None:
    """Else a loss of power could bring the checkpoint back below it, and it would run again."""
    kept: queue.Queue[tuple[int, int]] = queue.Queue()

    class Ran(Nothing):
        def take_over(self) -> dict[int, Recorded]:
            return {made.start + 3: Recorded.DONE}

        def forget_below(self, ts: int) -> None:
            stored = made.store.kept.get(made.keys.feed_status("f"), b'{"checkpoint_ts": 0}')
            kept.put((ts, FeedStatus.model_validate_json(stored).checkpoint_ts))

    with _owned(tmp_path, Ran()) as made:
        made.create()
        made.resolve(made.start + 5)
        entry = made.store.get(made.keys.assignment("c", "f"))
        assert entry is not None
        epoch = Assignment.model_validate_json(entry.value).epoch
        said = Report(feed="f", epoch=epoch, checkpoint_ts=made.start + 5, running=True)
        put = Put(made.keys.report("c", "f"), said.model_dump_json().encode())
        made.store.txn([], [put], durable=False)
        assert kept.get(timeout=10) == (made.start + 5, made.start + 5)


def test_tables_are_made_before_it_is_asked_what_ties_them() -> None:
    calls: list[str] = []

    class Told(Nothing):
        def take_over(self) -> dict[int, Recorded]:
            calls.append("take over")
            return {}

        def ties(self) -> tuple[tuple[str, str], ...]:
            calls.append("ties")
            return ()

    made = Executor(
        lambda _: Told(), SystemClock(), lambda _: None, lambda i: calls.append(f"make {i.id}")
    )
    info = FeedInfo(id="f", upstream="u", sink_uri="", config={}, start_ts=1, epoch=1)
    until(lambda: made.progress(info).recorded is not None, "it is taken over")
    made.stop()
    assert calls == ["take over", "make f", "ties"]


def test_few_sinks_are_taken_over_at_once() -> None:
    guard, inside, go_on = threading.Lock(), list[int](), threading.Event()

    class Slow(Nothing):
        def take_over(self) -> dict[int, Recorded]:
            with guard:
                inside.append(1)
            assert go_on.wait(60)
            return {}

    line = TurnLine(2, patience_s=60.0)
    made = Executor(lambda _: Slow(), SystemClock(), lambda _: None, line=line)
    infos = [
        FeedInfo(id=f"f{i}", upstream="u", sink_uri="", config={}, start_ts=1, epoch=1)
        for i in range(10)
    ]
    try:
        for info in infos:
            made.progress(info)
        until(lambda: len(inside) >= 2, "two are being taken over")
        time.sleep(0.2)
        assert len(inside) == 2
        go_on.set()
        until(lambda: all(made.progress(i).recorded is not None for i in infos), "all are")
    finally:
        go_on.set()
        made.stop()


def test_a_bug_in_one_changefeed_fails_it_and_no_other(
    owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = runner.step

    def step(tick: FeedTick, seen: FeedInput, now_ms: int) -> tuple[FeedTick, Effects]:
        if seen.info.id == "bad":
            raise KeyError("a bug of ours")
        return real(tick, seen, now_ms)

    owned.create("bad")
    until(lambda: owned.told("bad"), "it is assigned")
    monkeypatch.setattr(runner, "step", step)
    owned.create()
    owned.resolve(owned.start + 1)
    bad = owned.keys.feed_info("bad")

    def failed() -> bool:
        return FeedInfo.model_validate_json(owned.value(bad)).state is FeedState.FAILED

    until(failed, "it fails")
    error = FeedInfo.model_validate_json(owned.value(bad)).error
    assert error is not None
    assert (error.code, error.kind) == ("TG:ErrTickFailed", "internal")
    told = owned.told("bad")
    assert told is not None
    assert not told.run
    owned.resolve(owned.start + 2)
    # Resumed once the bug is gone, it goes on as any other.
    monkeypatch.setattr(runner, "step", real)
    admin.resume(owned.store, owned.keys, "bad", 1)
    until(lambda: (told := owned.told("bad")) and told.run, "it runs again")


def test_a_value_that_cannot_be_read_is_kept_and_stops_no_other(owned: Owned) -> None:
    keys = owned.keys
    newer = b'{"id": "a", "upstream": "u", "sink_uri": "x", "start_ts": 1, "format": 2}'
    owned.put(keys.feed_info("a"), newer)
    owned.put(keys.feed_info("b"), b"garbage")
    owned.create("c")
    until(lambda: owned.told("c"), "it is assigned")
    owned.put(keys.feed_status("c"), b"{}")
    owned.put(keys.report("c", "f"), b"garbage")
    owned.put(keys.upstream_status("u"), b"garbage")
    owned.create()
    for i in range(1, 4):
        owned.resolve(owned.start + i)
    assert owned.value(keys.feed_info("a")) == newer
    assert owned.value(keys.feed_info("b")) == b"garbage"
    assert owned.value(keys.feed_status("c")) == b"{}"

    def failed() -> bool:
        info = FeedInfo.model_validate_json(owned.value(keys.feed_info("c")))
        return info.error is not None and info.error.code == "TG:ErrStoredValueUnreadable"

    until(failed, "it says that its progress cannot be read")
    told = owned.told("c")
    assert told is not None
    assert not told.run
    # The operator may remove what cannot be read.
    for feed in ("a", "b", "c"):
        assert admin.remove(owned.store, keys, feed)
    owned.resolve(owned.start + 4)


def test_an_owner_survives_a_store_that_fails(owned: Owned) -> None:
    owned.create()
    owned.resolve(owned.start + 1)
    owned.store.broken = True
    ddl(owned.writer, owned.start + 2, "CREATE TABLE other.t (i INT)")
    owned.writer.commit(owned.start + 2, {})
    until(lambda: owned.store.refused >= 2, "it tries again")
    assert not owned.runner.over
    owned.store.broken = False
    until(lambda: owned.judged() == owned.start + 2, "it goes on")
