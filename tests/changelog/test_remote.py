"""A log that is read from elsewhere is the log: what it holds, what is wrong with it, who may."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cdc.base.position import END, START, Position
from cdc.changelog import journal
from cdc.changelog.errors import LogCollected, LogCorrupt, LogMissing
from cdc.changelog.reader import ChangeLog
from cdc.changelog.remote.access import token
from cdc.changelog.remote.connection import LogConnection
from cdc.changelog.remote.endpoint import LogEndpoint
from cdc.changelog.remote.errors import LogAccessRefused, LogEndpointForeign, LogUnreachable
from cdc.changelog.remote.mirror import LogMirror
from processor.slot import GivenSlot, NoSlotFree, Slot
from tests.changelog.logs import StillClock, ddl, dml, open_log
from tests.changelog.serving import mirrored, serving
from tests.seeds import seed
from tests.servers import tls
from tests.servers.proxy import Proxy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a log of the upstream ``main``."""
    made = tmp_path / "log" / "main" / "0"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def endpoint(tmp_path: Path, folder: Path) -> Iterator[LogEndpoint]:
    """Return an endpoint over the folder of all logs."""
    with serving(tmp_path / "log") as found:
        yield found


def _events(log: ChangeLog) -> list[tuple[int, int, bytes]]:
    runs = log.runs(Position(log.state.first_ts), END)
    log.verify(runs)
    each = (runs.slice(i, i + 1) for i in range(len(runs)))
    return [(int(r.commit_ts[0]), int(r.first_row[0]), log.event(r)) for r in each]


def test_it_is_read_as_it_is_written_over_segments_and_retention(
    endpoint: LogEndpoint, folder: Path, tmp_path: Path
) -> None:
    clock, chance = StillClock(), random.Random(seed())
    writer = open_log(folder, clock, segment_bytes=16384, keep_s=0, manifest_bytes=2048)
    writer.save_snapshot(1, {"tables": ["at 1"]})
    writer.begin(1, {"at": 0})
    log = mirrored(endpoint.access(folder), folder, tmp_path / "cache")
    # Another worker of the same executor reads now and then, from the same copy.
    other = mirrored(endpoint.access(folder), folder, tmp_path / "cache")
    here = ChangeLog.open(folder)
    ts = 1
    for step in range(60):
        for _ in range(chance.randint(1, 6)):
            ts += chance.randint(1, 9)
            table = writer.table_id("s", f"t{chance.randint(0, step)}", b"\1")
            dml(writer, ts, [(table, 2), (table, 1)], tag=b"x" * chance.randint(0, 900))
            if chance.random() < 0.1:
                ts += 1
                ddl(writer, ts, f"create table t{ts} (a int)")
        writer.commit(ts, {"at": ts})
        if step % 20 == 19:
            clock.ms += 1000
            assert writer.collect(ts - 20)
        here.refresh()
        for reader in (log, other) if step % 7 == 0 else (log,):
            assert reader.refresh() == here.state
            assert _events(reader) == _events(here)
            assert reader.tables == here.tables
            assert reader.statements(1, ts) == here.statements(1, ts)
            assert reader.snapshots() == here.snapshots()
            assert reader.snapshot_at(ts) == here.snapshot_at(ts)
            assert reader.format_at(ts) == here.format_at(ts)
    assert list(journal.read(folder, 1, ts)), "some statements are in the journal"
    with pytest.raises(LogCollected):
        log.runs(START, END)
    writer.close()


def test_only_what_is_read_is_fetched(endpoint: LogEndpoint, folder: Path, tmp_path: Path) -> None:
    writer = open_log(folder, segment_bytes=64 << 20)
    for ts in range(1, 101):
        dml(writer, ts, [(0, 1)], tag=b"x" * 100_000)
    writer.commit(100, {})
    log = mirrored(endpoint.access(folder), folder, tmp_path / "cache")
    runs = log.runs(Position(50), Position(52))
    log.verify(runs)
    (copy,) = (tmp_path / "cache").glob("*/000001.binlog")
    taken = copy.stat().st_blocks * 512
    assert 200_000 < taken < 500_000 < copy.stat().st_size
    assert log.event(runs.slice(0, 1)) == ChangeLog.open(folder).event(runs.slice(0, 1))
    writer.close()


def test_a_missing_log_and_a_capture_that_is_away(
    endpoint: LogEndpoint, folder: Path, tmp_path: Path
) -> None:
    access = endpoint.access(folder)
    with pytest.raises(LogMissing):
        mirrored(access, folder, tmp_path / "cache")
    open_log(folder).close()
    log = mirrored(access, folder, tmp_path / "cache")
    endpoint.stop()
    with pytest.raises(LogUnreachable):
        log.refresh()


def test_the_cache_is_bounded_and_what_is_in_use_stays(
    endpoint: LogEndpoint, folder: Path, tmp_path: Path
) -> None:
    writer = open_log(folder, segment_bytes=1 << 20)
    for ts in range(1, 101):
        dml(writer, ts, [(0, 1)], tag=b"x" * 100_000)
    writer.commit(100, {})
    access = replace(endpoint.access(folder), cache_bytes=2 << 20)
    log, here = mirrored(access, folder, tmp_path / "cache"), ChangeLog.open(folder)
    other = mirrored(access, folder, tmp_path / "cache")
    first = other.runs(START, Position(3))
    other.verify(first)
    for ts in range(10, 101, 10):
        runs = log.runs(Position(ts - 10), Position(ts))
        log.verify(runs)
        assert log.event(runs.slice(0, 1)) == here.event(runs.slice(0, 1))
        log.forget_below(ts)
    copies = {p.name: p.stat().st_blocks * 512 for p in (tmp_path / "cache").glob("*/*.binlog")}
    assert sum(copies.values()) < 5 << 20
    assert "000001.binlog" in copies, "another worker reads it"
    assert other.event(first.slice(0, 1)) == here.event(first.slice(0, 1))
    # What has gone is there again when it is asked for.
    again = log.runs(Position(20), Position(30))
    log.verify(again)
    assert log.event(again.slice(0, 1)) == here.event(again.slice(0, 1))
    writer.close()


def test_bytes_that_change_on_the_way_are_fetched_again_or_are_an_error(
    endpoint: LogEndpoint, folder: Path, tmp_path: Path
) -> None:
    """Wherever a bit flips: what is read is what was written, or the log is found damaged."""
    writer = open_log(folder)
    for ts in range(1, 200):
        dml(writer, ts, [(writer.table_id("s", f"t{ts % 9}", b"\1"), 1)], tag=b"wanted row")
    writer.save_snapshot(1, {"tables": ["snapshot"]})
    writer.commit(199, {})
    right = _events(ChangeLog.open(folder))
    access = endpoint.access(folder)
    marks = [b"wanted", b"commits", b'"table"', b"snapshot", b"commit_ts", b"crc_before"]
    with Proxy(access.port) as proxy:
        for number, mark in enumerate(marks):
            for times in (1, 1000):
                cache = tmp_path / f"cache-{number}-{times}"
                proxy.flip(mark, times)
                try:
                    log = mirrored(access, folder, cache, port=proxy.port)
                    assert _events(log) == right
                    assert log.snapshot_at(199) == {"tables": ["snapshot"]}
                    assert times == 1, f"the damage of {mark!r} was not seen"
                except LogCorrupt:
                    assert times > 1, f"a single damage of {mark!r} was final"
                finally:
                    proxy.go_on()
    writer.close()


def test_a_connection_that_breaks_is_an_error_that_passes(
    endpoint: LogEndpoint, folder: Path, tmp_path: Path
) -> None:
    writer = open_log(folder)
    for ts in range(1, 50):
        dml(writer, ts, [(0, 1)], tag=b"x" * 100_000)
    writer.commit(49, {})
    access = endpoint.access(folder)
    with Proxy(access.port) as proxy:
        log = mirrored(access, folder, tmp_path / "cache", port=proxy.port)
        runs = log.runs(START, END)
        proxy.cut_after(1_000_000)
        with pytest.raises(LogUnreachable):
            log.verify(runs)
        log.verify(runs)
    assert _events(ChangeLog.open(folder)) == _events(log)
    writer.close()


@pytest.mark.parametrize(
    "path",
    [
        "../token",
        "main/0/../../../token",
        "main/0/%2e%2e/%2e%2e/token",
        "main/0//etc/passwd",
        "main/0/lock",
        "main/0/xids",
        "main/0/origin",
        "main/0/schema/../manifest",
        "main/0/",
        "main/",
        "",
        "main/0/run/f/1/slot-0",
        "main/0/manifest?x",
        "main/0/000001.binlog\0",
        "other/0/manifest",
        "main.before/0/manifest",
    ],
)
def test_a_foreign_path_is_refused(
    endpoint: LogEndpoint, folder: Path, tmp_path: Path, path: str
) -> None:
    (tmp_path / "token").write_text("secret")
    for upstream in ("main", "other"):
        log = tmp_path / "log" / upstream / "0"
        log.mkdir(parents=True, exist_ok=True)
        open_log(log).close()
    access = endpoint.access(folder)
    line = f"GET /{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {access.token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", access.port)) as peer:
        peer.sendall(line.encode())
        answer = b"".join(iter(lambda: peer.recv(4096), b""))
    assert answer.split(b" ")[1] in (b"400", b"403")
    assert answer.endswith(b"\r\n\r\n") or b"secret" not in answer


def test_what_a_link_leads_to_is_not_served(
    endpoint: LogEndpoint, folder: Path, tmp_path: Path
) -> None:
    open_log(folder).close()
    (tmp_path / "token").write_text("secret")
    (folder / "000009.binlog").symlink_to(tmp_path / "token")
    connection = LogConnection(endpoint.access(folder))
    with pytest.raises(LogUnreachable):
        connection.whole("main/0/000009.binlog")


def test_a_wrong_token_is_refused(endpoint: LogEndpoint, folder: Path, tmp_path: Path) -> None:
    open_log(folder).close()
    access = endpoint.access(folder)
    log = mirrored(access, folder, tmp_path / "right")
    assert log.state.resolved_ts == 0
    for wrong in ("", "x", access.token[:-1], token(b"another secret", "main"), "ÿ"):
        with pytest.raises((LogAccessRefused, LogUnreachable)):
            mirrored(replace(access, token=wrong), folder, tmp_path / "wrong")
    assert not list((tmp_path / "wrong").glob("*/manifest"))
    plain = http.client.HTTPConnection("127.0.0.1", access.port)
    plain.request("GET", "/main/0/manifest")
    assert plain.getresponse().status == 403


def test_by_tls_and_nobody_else_is_taken_for_the_capture(folder: Path, tmp_path: Path) -> None:
    writer = open_log(folder)
    for ts in range(1, 50):
        dml(writer, ts, [(0, 1)], tag=b"x" * 100_000)
    writer.commit(49, {})
    made, foreign = tls.make(tmp_path / "tls"), tls.make(tmp_path / "foreign")
    with serving(tmp_path / "log", made) as endpoint, serving(tmp_path / "log", foreign) as other:
        access = endpoint.access(folder)
        log = mirrored(access, folder, tmp_path / "cache")
        assert _events(log) == _events(ChangeLog.open(folder))
        with pytest.raises(LogEndpointForeign):
            mirrored(access, folder, tmp_path / "wrong", port=other.access(folder).port)
        # One that speaks plain HTTP learns nothing either: no token is sent before the handshake.
        heard: list[bytes] = []
        with socket.create_server(("127.0.0.1", 0)) as spy:
            thread = threading.Thread(target=_listen, args=(spy, heard))
            thread.start()
            with pytest.raises(LogUnreachable):
                mirrored(access, folder, tmp_path / "wrong", port=spy.getsockname()[1])
            thread.join()
        assert heard
        assert access.token.encode() not in b"".join(heard)
    writer.close()


def _listen(spy: socket.socket, heard: list[bytes]) -> None:
    peer, _ = spy.accept()
    with peer:
        heard.append(peer.recv(65536))


def test_slots_are_given_once_and_again_when_they_are_given_back(
    endpoint: LogEndpoint, folder: Path
) -> None:
    access = endpoint.access(folder)
    run = folder / "run" / "feed" / "3"
    one, two = (GivenSlot.claim(LogConnection(access), str(run), 2) for _ in range(2))
    assert {one.number, two.number} == {0, 1}
    with pytest.raises(NoSlotFree):
        GivenSlot.claim(LogConnection(access), str(run), 2)
    with pytest.raises(NoSlotFree):
        Slot.claim(run, 2)
    # A worker that is gone without a word may still live somewhere.
    one._connection.close()
    with pytest.raises(NoSlotFree):
        GivenSlot.claim(LogConnection(access), str(run), 2)
    two.release()
    assert GivenSlot.claim(LogConnection(access), str(run), 2).number == two.number
    # A recovery has fenced all of them.
    assert GivenSlot.claim(LogConnection(access), str(run.parent / "4"), 2).number == 0
    assert Slot.claim(run, 2).number in (0, 1)


def test_a_chunk_comes_as_a_whole_and_only_where_one_is_wanted(
    endpoint: LogEndpoint, folder: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    made.write_bytes(b"rows" * 1_000_000)
    wanted = folder / "snapshot" / "feed" / "1" / "chunks"
    connection = LogConnection(endpoint.access(folder))
    name = "main/0/snapshot/feed/1/chunks/3-77-0-1-0a1b2c3d"
    with pytest.raises((FileNotFoundError, LogUnreachable)):
        connection.put(name, made)
    wanted.mkdir(parents=True)
    connection.put(name, made)
    assert (wanted / "3-77-0-1-0a1b2c3d").read_bytes() == made.read_bytes()
    with pytest.raises((LogAccessRefused, LogUnreachable)):
        connection.put("main/0/snapshot/feed/1/rows/000001.binlog", made)
    # A worker that dies while it sends leaves nothing behind.
    with socket.create_connection(("127.0.0.1", endpoint.access(folder).port)) as peer:
        head = f"PUT /{name} HTTP/1.1\r\nAuthorization: Bearer {endpoint.access(folder).token}\r\n"
        peer.sendall(f"{head}Content-Length: 4000\r\n\r\nhalf".encode())
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1) == b""
    assert [path.name for path in wanted.iterdir()] == ["3-77-0-1-0a1b2c3d"]
    assert (wanted / "3-77-0-1-0a1b2c3d").read_bytes() == made.read_bytes()


def test_a_reader_of_nodes_finds_their_logs_beside(
    endpoint: LogEndpoint, folder: Path, tmp_path: Path
) -> None:
    node = folder.parent / "nodes" / "a"
    node.mkdir(parents=True)
    writer = open_log(node)
    dml(writer, 5, [(0, 1)])
    writer.commit(5, {})
    open_log(folder).close()
    mirror = LogMirror.open(endpoint.access(folder), str(folder), tmp_path / "cache")
    beside = ChangeLog.over(mirror.beside("../nodes/a"))
    assert _events(beside) == _events(ChangeLog.open(node))
    assert json.loads(LogConnection(endpoint.access(folder)).whole("main/0/schema/")) == []
    writer.close()
