"""Logs of upstreams are never deleted for a name's sake; registering one holds nobody up."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.base.clock import SystemClock
from cdc.base.errors import TidegateError
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.changelog import origin
from cdc.changelog.origin import Origin
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.coord.anchors import Anchors
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import Anchor, UpstreamInfo, UpstreamStatus
from cdc.schema.snapshot import Schema, Wanted
from cdc.server import log_folders
from cdc.server.data_dir import DataDir
from cdc.server.log_source import OnStatus
from cdc.server.metrics import Metrics
from cdc.server.needed import Needed
from cdc.server.nodes import NewNode
from cdc.server.pulling import RealSource
from cdc.server.settings import ServerSettings
from cdc.server.supervised_puller import SupervisedPuller
from cdc.server.upstream_errors import UpstreamExists, UpstreamLogNotReady
from cdc.server.upstreams import Upstreams
from cdc.source.anchoring import Anchoring
from cdc.source.errors import UpstreamGone
from tests.servers.database import Database
from tests.waiting import PATIENCE

CLOCK = SystemClock()


class Held:
    """A source whose server answers when the test says so; it pulls nothing."""

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()
        self.error: TidegateError | None = None

    def register(self, asked: UpstreamInfo, start: str | None, folder: Path) -> UpstreamInfo:
        (folder / "schema").mkdir(parents=True)
        self.asked.set()
        assert self.answer.wait(30)
        if self.error is not None:
            raise self.error
        (folder / "manifest").write_text("begun")
        origin.save(folder, Origin.new())
        return asked

    def first_anchor(self, folder: Path) -> tuple[Ts, dict[str, Any], dict[str, Any]]:
        return 1, {}, {}

    def begin(self, folder: Path, anchor: Anchor, snapshot: dict[str, Any], o: Origin) -> None:
        raise NotImplementedError

    def pull(
        self,
        info: UpstreamInfo,
        folder: Path,
        on_status: OnStatus,
        needed: Callable[[], Needed],
        stop: threading.Event,
        anchoring: Anchoring,
    ) -> None:
        on_status(UpstreamStatus(state="running"))
        stop.wait()

    def schema_now(self, info: UpstreamInfo, folder: Path, wanted: Wanted | None = None) -> Ts:
        raise NotImplementedError

    def check_replica(self, info: UpstreamInfo, uri: str) -> None:
        raise NotImplementedError

    def schema_at(self, folder: Path, ts: Ts) -> Schema:
        raise NotImplementedError


class Dies(Held):
    """The process is killed while it registers."""

    def register(self, asked: UpstreamInfo, start: str | None, folder: Path) -> UpstreamInfo:
        folder.mkdir(parents=True)
        os._exit(9)


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[DataDir]:
    made = DataDir(tmp_path / "data")
    yield made
    made.close()


def _capture(data_dir: DataDir, source: Any, cluster: str = "default") -> Upstreams:
    store = EmbeddedStore(data_dir.store, CLOCK)
    return Upstreams(
        store, Keys(cluster), "c", store.grant(60), source, data_dir.log, CLOCK, Metrics(CLOCK)
    )


def _real(data_dir: DataDir, cluster: str = "default", **changelog: Any) -> Upstreams:
    settings = ServerSettings(data_dir=data_dir.path, changelog=ChangelogSettings(**changelog))
    return _capture(data_dir, RealSource(settings, CLOCK), cluster)


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_another_cluster_and_a_lost_store_leave_a_log_alone(
    mysql: Database, data_dir: DataDir
) -> None:
    upstreams = _real(data_dir)
    upstreams.register("main", mysql.uri())
    log = data_dir.logs / "main"
    before = _files(log)
    assert before
    for lost in (False, True):
        if lost:
            for file in data_dir.store.parent.iterdir():
                file.unlink()
        other = _real(data_dir, "default" if lost else "other")
        for uri in (mysql.uri(), "mysql://root@127.0.0.1:1"):
            with pytest.raises(TidegateError) as refused:
                other.register("main", uri)
            assert refused.value.code == "TG:ErrUpstreamLogExists"
            assert "main" in refused.value.object
            assert refused.value.hint
            assert _files(log) == before


def test_a_registration_that_did_not_end_is_no_log(data_dir: DataDir) -> None:
    """Neither one that was refused nor one whose process died is in the way of the next."""
    source = Held()
    source.answer.set()
    source.error = UpstreamGone("no route")
    upstreams = _capture(data_dir, source)
    with pytest.raises(UpstreamGone):
        upstreams.register("main", "mysql://u@h")
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            _capture(data_dir, Dies()).register("main", "mysql://u@h")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert data_dir.log("main").exists()
    source.error = None
    upstreams.register("main", "mysql://u@h")
    assert _files(data_dir.logs / "main").keys() == {"0/manifest", "0/origin"}


def test_a_server_that_does_not_answer_holds_nobody_up(data_dir: DataDir) -> None:
    source = Held()
    source.answer.set()
    upstreams = _capture(data_dir, source)
    upstreams.register("one", "mysql://u@h")
    source.answer.clear()
    source.asked.clear()
    slow = threading.Thread(target=upstreams.register, args=("two", "mysql://u@h"), daemon=True)
    slow.start()
    assert source.asked.wait(30)
    others = [
        threading.Thread(target=upstreams.revive, args=("one",), daemon=True),
        threading.Thread(target=upstreams.remove, args=("one",), daemon=True),
    ]
    for other in others:
        other.start()
        other.join(20)
        assert not other.is_alive()
    with pytest.raises(UpstreamExists):
        upstreams.register("two", "mysql://u@h")
    source.answer.set()
    slow.join(20)
    assert [i.name for i in upstreams.all()] == ["two"]
    assert (data_dir.log("two") / "manifest").exists()


def test_a_log_that_is_gone_is_made_anew(mysql: Database, data_dir: DataDir) -> None:
    """From an anchor: else it would begin at the server's oldest binlog, or now."""
    upstreams = _real(data_dir)
    begun = upstreams.register("main", mysql.uri()).start
    (data_dir.logs / "main").rename(data_dir.path / "aside")
    upstreams.start()
    try:
        _until(lambda: upstreams.status("main").state == "running")
        assert upstreams.log_folder("main") == data_dir.log("main")
        with contextlib.closing(ChangeLog.open(data_dir.log("main"))) as log:
            assert log.state.position["file"] == begun["file"]
    finally:
        upstreams.stop()


def test_a_log_is_made_anew_where_something_is_prepared(
    database: Callable[..., Database], data_dir: DataDir
) -> None:
    """It begins at the newest anchor, and has the rows that were prepared before it."""
    db = database("mysql-8.0")
    db.execute("DROP DATABASE IF EXISTS x", "CREATE DATABASE x", "CREATE TABLE x.t (id INT)")
    upstreams = _real(data_dir, anchor_s=0.1)
    upstreams.register("main", db.uri())
    upstreams.start()
    anchors = Anchors(upstreams._store, Keys(), "main")
    try:
        _until(lambda: upstreams.status("main").state == "running")
        db.execute("XA START 'a'", "INSERT INTO x.t VALUES (1)", "XA END 'a'", "XA PREPARE 'a'")
        db.execute("INSERT INTO x.t VALUES (2)")
        _until(lambda: _rows(data_dir) == 1)
        with contextlib.closing(ChangeLog.open(data_dir.log("main"))) as log:
            behind = log.state.resolved_ts
            assert log.state.prepared_from
        _until(lambda: anchors.all()[-1].ts > behind)
        upstreams.stop()
        (data_dir.logs / "main").rename(data_dir.path / "aside")
        upstreams = _real(data_dir, anchor_s=0.1)
        upstreams.start()
        _until(lambda: upstreams.status("main").state == "running")
        db.execute("XA COMMIT 'a'")
        _until(lambda: _rows(data_dir) == 1)
        with contextlib.closing(ChangeLog.open(data_dir.log("main"))) as log:
            assert log.state.first_ts > behind
    finally:
        upstreams.stop()


def _rows(data_dir: DataDir) -> int:
    """Committed rows that the log of upstream ``main`` has."""
    with contextlib.closing(ChangeLog.open(data_dir.log("main"))) as log:
        first, end = Position(log.state.first_ts), Position(log.state.resolved_ts)
        return int(log.runs(first, end).rows.sum())


def test_a_log_without_a_place_to_begin_is_not_made(
    mysql: Database, data_dir: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_end = SupervisedPuller._at_end

    def late(puller: SupervisedPuller, again: threading.Event) -> bool:
        # What it has said is seen, and acted upon, before it has ended.
        threading.Event().wait(0.5)
        return at_end(puller, again)

    monkeypatch.setattr(SupervisedPuller, "_at_end", late)
    upstreams = _real(data_dir)
    upstreams.register("main", mysql.uri())
    Anchors(upstreams._store, Keys(), "main").clear()
    (data_dir.logs / "main").rename(data_dir.path / "aside")
    upstreams.start()
    try:
        _until(lambda: upstreams.status("main").state == "failed")
        error = upstreams.status("main").error
        assert error is not None
        assert error.code == "TG:ErrUpstreamLogLost"
        with pytest.raises(UpstreamLogNotReady):
            upstreams.log_folder("main")
        # Put back, it is pulled on.
        (data_dir.path / "aside").rename(data_dir.logs / "main")
        upstreams.revive("main")
        _until(lambda: upstreams.status("main").state == "running")
    finally:
        upstreams.stop()


def test_what_fails_while_a_puller_is_begun_is_tried_again(
    mysql: Database, data_dir: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete, failures = log_folders.complete, iter([OSError("no"), OSError("no")])

    def fails(folder: Path) -> None:
        if (error := next(failures, None)) is not None:
            raise error
        complete(folder)

    upstreams = _real(data_dir)
    upstreams.register("main", mysql.uri())
    monkeypatch.setattr(log_folders, "complete", fails)
    upstreams.start()
    try:
        _until(lambda: upstreams.status("main").state == "running")
        assert next(failures, None) is None
    finally:
        upstreams.stop()


def test_a_mark_that_another_thread_took_away_is_no_error(tmp_path: Path) -> None:
    log_folders.make(tmp_path / "log")
    log_folders.complete(tmp_path / "log")
    log_folders.complete(tmp_path / "log")
    assert list((tmp_path / "log").iterdir()) == []


def _until(done: Callable[[], bool]) -> None:
    end = CLOCK.monotonic() + 30 * PATIENCE
    while not done():
        assert CLOCK.monotonic() < end
        threading.Event().wait(0.02)


def test_logs_of_a_cluster_that_go_while_they_are_written_are_made_anew(
    database: Callable[..., Database], data_dir: DataDir
) -> None:
    """All of them, whichever is gone: what one calls its transactions is nothing to the others."""
    upstreams = _real(data_dir)
    more = "--innodb-lock-wait-timeout=20"
    servers = [database("mysql-8.0", options=[f"--server-id={n}", more]) for n in (51, 52)]
    nodes = [NewNode(f"n{i}", db.uri()) for i, db in enumerate(servers, 1)]
    upstreams.register("bank", kind="cluster", nodes=nodes)
    names = ("bank", "bank.n1", "bank.n2")
    begun = {name: origin.load(data_dir.log(name)) for name in names}
    upstreams.start()
    try:
        _until(lambda: all(upstreams.status(name).state == "running" for name in names))
        data_dir.log("bank.n2").rename(data_dir.path / "gone")
        for db in servers:
            db.execute("CREATE DATABASE IF NOT EXISTS anew", "DROP DATABASE anew")

        def made() -> bool:
            there = {name: origin.load(data_dir.log(name)) for name in names}
            return all(there[n] is not None and there[n] != begun[n] for n in names)

        _until(made)
        _until(lambda: all(upstreams.status(name).state == "running" for name in names))
        assert upstreams.log_folder("bank") == data_dir.log("bank")
    finally:
        upstreams.stop()
