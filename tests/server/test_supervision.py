"""Parts of a capture over a store that fails for a while: none ends, all say so, all go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.base.clock import SystemClock
from cdc.base.parts import Parts
from cdc.changelog import names
from cdc.changelog.origin import Origin
from cdc.coord import draining
from cdc.coord.contract import Put
from cdc.coord.keys import Keys
from cdc.coord.messages import (
    Anchor,
    Assignment,
    CaptureInfo,
    FeedInfo,
    UpstreamInfo,
    UpstreamStatus,
)
from cdc.schema.snapshot import Schema, Wanted
from cdc.server.log_source import OnStatus
from cdc.server.metrics import Metrics
from cdc.server.needed import Needed
from cdc.server.session import CaptureSession
from cdc.server.upstreams import Upstreams
from cdc.source.anchoring import Anchoring
from processor.runner import ProcessorRunner
from processor.settings import ProcessorSettings
from tests.processor.in_process import InProcessJobs
from tests.server.failing_store import FailingStore
from tests.waiting import until

KEYS = Keys()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FailingStore]:
    made = FailingStore(tmp_path / "meta.db")
    yield made
    made.broken = False
    made.close()


class Endless:
    """A source whose pullers say something whenever they are asked to, until they are stopped."""

    def __init__(self) -> None:
        self.say: OnStatus | None = None
        self.pulls = 0
        self.fail = threading.Event()

    def pull(
        self,
        info: UpstreamInfo,
        folder: Path,
        on_status: OnStatus,
        needed: Callable[[], Needed],
        stop: threading.Event,
        anchoring: Anchoring,
    ) -> None:
        self.pulls += 1
        self.say = on_status
        while not stop.wait(0.01):
            if self.fail.is_set():
                self.fail.clear()
                raise RuntimeError("a bug")

    def register(self, asked: UpstreamInfo, start: str | None, folder: Path) -> UpstreamInfo:
        return asked

    def first_anchor(self, folder: Path) -> tuple[int, dict[str, Any], dict[str, Any]]:
        raise NotImplementedError

    def begin(self, folder: Path, anchor: Anchor, snapshot: dict[str, Any], o: Origin) -> None:
        raise NotImplementedError

    def schema_now(self, info: UpstreamInfo, folder: Path, wanted: Wanted | None = None) -> int:
        raise NotImplementedError

    def check_replica(self, info: UpstreamInfo, uri: str) -> None:
        raise NotImplementedError

    def schema_at(self, folder: Path, ts: int) -> Schema:
        raise NotImplementedError


def _upstreams(store: FailingStore, source: Endless, tmp_path: Path, parts: Parts) -> Upstreams:
    clock = SystemClock()
    lease, metrics = store.grant(60), Metrics(clock, parts)
    return Upstreams(
        store, KEYS, "c", lease, source, lambda n: tmp_path / n / "0", clock, metrics, parts
    )


@pytest.fixture(autouse=True)
def logs(tmp_path: Path) -> None:
    """Logs are there, as far as anybody looks."""
    for name in ("u", "good", "third"):
        folder = tmp_path / name / "0"
        folder.mkdir(parents=True)
        (folder / names.MANIFEST).touch()


def _put_upstream(store: FailingStore, name: str, value: bytes | None = None) -> None:
    info = UpstreamInfo(name=name, uri="mysql://h")
    store.txn([], [Put(KEYS.upstream_info(name), value or info.model_dump_json().encode())])


def test_a_puller_survives_a_store_that_fails(store: FailingStore, tmp_path: Path) -> None:
    source, parts = Endless(), Parts()
    upstreams = _upstreams(store, source, tmp_path, parts)
    _put_upstream(store, "u")
    upstreams.start()
    until(lambda: source.say is not None, "it pulls")
    assert source.say is not None
    store.broken = True
    source.say(UpstreamStatus(state="running", resolved_ts=5))
    assert "disk is full" in parts.troubles()["puller u"]
    # Its own error cannot be said either: it is, once the store takes it.
    source.fail.set()
    until(lambda: store.refused >= 2, "it wants to say its error")
    store.broken = False
    until(lambda: source.pulls >= 2, "it pulls again")
    source.say(UpstreamStatus(state="running", resolved_ts=7))
    assert upstreams.status("u").resolved_ts == 7
    assert parts.troubles() == {}
    upstreams.stop()


def test_an_upstream_that_cannot_be_read_stops_no_other(
    store: FailingStore, tmp_path: Path
) -> None:
    source, parts = Endless(), Parts()
    upstreams = _upstreams(store, source, tmp_path, parts)
    _put_upstream(store, "bad", b'{"name": "bad", "uri": "mysql://h", "format": 2}')
    _put_upstream(store, "good")
    upstreams.start()
    until(lambda: source.pulls == 1, "the other one is pulled")
    assert [u.name for u in upstreams.all()] == ["good"]
    assert upstreams.unreadable().keys() == {"bad"}
    # One that becomes unreadable while it is pulled goes on, and its value stays as it is.
    _put_upstream(store, "good", b"garbage")
    _put_upstream(store, "third")
    until(lambda: source.pulls == 2, "the third one is pulled")
    assert parts.states()["puller good"] == ""
    entry = store.get(KEYS.upstream_info("good"))
    assert entry is not None
    assert entry.value == b"garbage"
    # Nobody knows what a changefeed that cannot be read needs: nothing may go.
    assert upstreams.needed("third").checkpoint_ts > 0
    store.txn([], [Put(KEYS.feed_info("f"), b"{}")])
    assert upstreams.needed("third").checkpoint_ts == 0
    upstreams.stop()


def test_a_session_survives_a_store_that_fails(store: FailingStore) -> None:
    parts, owned, lost = Parts(), list[int](), threading.Event()
    info = CaptureInfo(id="c", address="x")
    session = CaptureSession(
        store, KEYS, info, 60, on_owner=owned.append, on_lost=lost.set, parts=parts
    )
    store.broken = True
    session.start()
    until(lambda: "session-election" in parts.troubles(), "it says that it cannot")
    store.broken = False
    until(lambda: owned and not parts.troubles(), "it is the owner")
    assert not lost.is_set()
    store.broken = True
    session.stop()


class _Slow(SystemClock):
    """Half a second goes by from each look to the next."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return self.looks / 2


@pytest.mark.parametrize(("clock", "warned"), [(SystemClock(), False), (_Slow(), True)])
def test_a_session_that_nearly_ended_says_so(
    store: FailingStore, caplog: pytest.LogCaptureFixture, clock: SystemClock, warned: bool
) -> None:
    ready = threading.Event()
    session = CaptureSession(
        *(store, KEYS, CaptureInfo(id="c", address="x"), 1.2),
        on_owner=lambda _: None,
        on_lost=lambda: None,
        # Asked for once it was prolonged.
        ready=lambda: ready.set() or True,
        clock=clock,
    )
    session._keep()
    assert ready.is_set()
    assert ("prolonged only after 1.0 s" in caplog.text) == warned
    session.stop()


def test_a_drained_owner_hands_over_before_it_resigns(store: FailingStore) -> None:
    """While it has upstreams it must own on: it is who places them elsewhere."""
    here, looked, lost = {"u"}, threading.Event(), threading.Event()

    def handed_over() -> bool:
        looked.set()
        return not here

    other = CaptureInfo(id="other", address="y", ready=True)
    store.txn([], [Put(KEYS.capture("other"), other.model_dump_json().encode())])
    owned = list[int]()
    session = CaptureSession(
        *(store, KEYS, CaptureInfo(id="c", address="x"), 60),
        on_owner=owned.append,
        on_lost=lost.set,
        handed_over=handed_over,
        parts=Parts(),
    )
    session.start()
    until(lambda: owned, "it is the owner")
    draining.drain(store, KEYS, "c")
    until(looked.is_set, "it has seen it")
    assert session.is_owner
    assert not lost.is_set()
    here.clear()
    until(lost.is_set, "it goes")
    session.stop()


def _processor(store: FailingStore, folder: Path, parts: Parts) -> ProcessorRunner:
    jobs, settings = InProcessJobs(), ProcessorSettings(retry_first_s=0.01)
    return ProcessorRunner(store, KEYS, "c", lambda _: folder, jobs, settings, SystemClock(), parts)


def _assign(store: FailingStore, feed: str, unreadable: bytes = b"") -> None:
    info = FeedInfo(id=feed, upstream="u", sink_uri="kafka://h/t", start_ts=1)
    told = Assignment(feed=feed, epoch=1, run=True, checkpoint_ts=1, judged_ts=1, barrier_ts=1)
    value = unreadable or info.model_dump_json().encode()
    assignment = Put(KEYS.assignment("c", feed), told.model_dump_json().encode())
    store.txn([], [Put(KEYS.feed_info(feed), value), assignment])


def test_a_processor_survives_a_store_that_fails(store: FailingStore, tmp_path: Path) -> None:
    folder, parts = tmp_path / "damaged", Parts()
    folder.mkdir()
    (folder / "manifest").write_bytes(b"no manifest\n")
    runner = _processor(store, folder, parts)
    _assign(store, "f")
    store.broken = True
    runner.start()
    until(lambda: "processor" in parts.troubles(), "it cannot say what is wrong with the log")
    store.broken = False
    until(lambda: store.get(KEYS.report("c", "f")), "it says it")
    # One that cannot be read keeps no other from being looked at.
    _assign(store, "g", unreadable=b"garbage")
    store.txn([], [Put(KEYS.assignment("c", "h"), b"garbage")])
    _assign(store, "i")
    until(lambda: store.get(KEYS.report("c", "i")), "the next one is looked at")
    assert store.get(KEYS.report("c", "g")) is None
    assert parts.troubles() == {}
    runner.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_parts_say_how_they_fare() -> None:
    stopping, parts, wrong = threading.Event(), Parts(), threading.Event()
    turns = []

    def turn() -> bool:
        turns.append(1)
        if wrong.is_set():
            raise KeyError("a bug")
        return not stopping.wait(0.01)

    def dies() -> bool:
        raise SystemExit

    part = parts.make("one", turn, stopping)
    part.start()
    until(lambda: len(turns) > 3, "it turns")
    assert parts.states() == {"one": ""}
    wrong.set()
    until(lambda: parts.troubles(), "it says so")
    seen = len(turns)
    wrong.clear()
    until(lambda: len(turns) > seen + 2 and not parts.troubles(), "it goes on")
    dead = parts.make("two", dies, stopping)
    dead.start()
    until(lambda: not dead.alive, "it ends")
    assert parts.troubles() == {"two": "has ended"}
    stopping.set()
    part.join(5)
    assert parts.states()["one"] == ""


def test_a_part_that_is_being_started_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping, parts = threading.Event(), Parts()
    part = parts.make("one", lambda: not stopping.wait(0.01), stopping)
    start, seen = threading.Thread.start, []

    def asked_meanwhile(thread: threading.Thread) -> None:
        seen.append((parts.states(), part.over))
        start(thread)

    assert not part.over
    monkeypatch.setattr(threading.Thread, "start", asked_meanwhile)
    part.start()
    assert seen == [({"one": ""}, False)]
    assert not part.over
    stopping.set()
    part.join(5)
    # That it was stopped is no trouble.
    assert (parts.states(), part.over) == ({"one": ""}, True)


def test_an_age_goes_on_and_a_removed_upstream_is_no_metric() -> None:
    class Still(SystemClock):
        now = 1_700_000_000_000

        def now_ms(self) -> int:
            return self.now

    clock = Still()
    metrics = Metrics(clock)
    metrics.observe_upstream("u", UpstreamStatus(resolved_ts=(clock.now - 4000) << 18))
    name = b'tidegate_upstream_resolved_lag_seconds{upstream="u"} '
    assert name + b"4.0" in metrics.text()
    # Nobody says anything any more; the age goes on.
    clock.now += 60_000
    assert name + b"64.0" in metrics.text()
    metrics.forget_upstream("u")
    assert b'upstream="u"' not in metrics.text()
