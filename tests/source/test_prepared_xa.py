"""XA transactions that were prepared before the log begins: never a commit without its rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdc.binlog.xa import Xid
from cdc.coord.messages import UpstreamInfo
from cdc.source import prepared_xa
from cdc.source.errors import UpstreamNotReady
from cdc.source.prepared_xa import prepared
from cdc.source.readiness import check_upstream
from cdc.source.settings import SourceSettings
from tests.servers.database import Database
from tests.source.pulling import Pulled
from tests.waiting import until


def _prepare(db: Database, xid: str, row: int) -> None:
    """Prepare, and wait until the server has let the connection go: only then others may end it."""
    with db.connect() as connection, connection.cursor() as cursor:
        number = connection.thread_id()
        cursor.execute(f"XA START {xid}")
        cursor.execute(f"INSERT INTO d.t VALUES ({row})")
        cursor.execute(f"XA END {xid}")
        cursor.execute(f"XA PREPARE {xid}")
    there = f"SELECT 1 FROM information_schema.processlist WHERE id = {number}"
    until(lambda: not db.execute(there), f"connection {number} has gone")


@contextmanager
def _prepared(db: Database, xid: str, row: int) -> Iterator[None]:
    """In the end it is not there any more, whatever the test did."""
    _prepare(db, xid, row)
    try:
        yield
    finally:
        with db.connect() as connection:
            still = prepared(connection) or []
        if Xid.parse_text(xid) in still:
            db.execute(f"XA ROLLBACK {xid}")


def test_a_log_does_not_begin_behind_a_prepare(db: Database, tmp_path: Path) -> None:
    # Bytes that are no text, in both parts.
    xid = "X'6127ff',X'00',77"
    with _prepared(db, xid, 1):
        with pytest.raises(UpstreamNotReady) as refused:
            Pulled(db, tmp_path / "refused", prepared_xa_s=0)
        assert str(Xid.parse_text(xid)) in str(refused.value)
        assert "XA ROLLBACK X'6127ff',X'00',77" in (refused.value.hint or "")
        # It waits for one that ends.
        ending = threading.Timer(0.3, db.execute, (f"XA COMMIT {xid}",))
        ending.start()
        with Pulled(db, tmp_path / "log", prepared_xa_s=30) as p:
            ending.join()
            db.execute("INSERT INTO d.t VALUES (2)")
            p.caught_up()
            assert p.rows() == 1
            assert db.execute("SELECT COUNT(*) FROM d.t") == [(2,)]


@pytest.mark.parametrize("seen", [True, False], ids=["", "not looked at"])
def test_nor_behind_one_that_ends_before_we_ask(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    """As heartbeats of a coordinator do; without the look into the binlog a commit has no rows."""
    with db.connect() as other, other.cursor() as cursor:
        for text in ("START", "END", "PREPARE"):
            cursor.execute(f"XA {text} 'short'")
            if text == "START":
                cursor.execute("INSERT INTO d.t VALUES (1)")
        ended = False

        def too_late(connection: object) -> list[Xid]:
            # The place is taken already.
            nonlocal ended
            if not ended:
                ended = True
                cursor.execute("XA COMMIT 'short'")
            return []

        monkeypatch.setattr(prepared_xa, "prepared", too_late)
        if not seen:
            monkeypatch.setattr(prepared_xa, "events_between", lambda *_: ())
        with Pulled(db, tmp_path / "log") as p:
            if not seen:
                assert getattr(p.failed(), "code", "") == "TG:ErrXaNotKnown"
                return
            db.execute("INSERT INTO d.t VALUES (2)")
            p.caught_up()
            assert p.rows() == 1


def test_commit_of_an_xid_that_the_log_does_not_know_stops(db: Database, tmp_path: Path) -> None:
    with Pulled(db, tmp_path / "log") as p:
        p.caught_up()
        start = "{file}:{pos}".format(**p.writer.state.position)
    db.execute("FLUSH BINARY LOGS")
    for end, failed in (("ROLLBACK", False), ("COMMIT", True)):
        folder = tmp_path / f"later-{end}"
        with _prepared(db, "'before'", 5), Pulled(db, folder, start=_now(db)) as p:
            # Prepared and ended in the log, twice under one xid.
            for row in (1, 2):
                _prepare(db, "'inside'", row + 10 * failed)
                db.execute("XA COMMIT 'inside'")
            p.caught_up()
            assert p.rows() == 2
            db.execute(f"XA {end} 'before'")
            if not failed:
                p.caught_up()
                continue
            error = p.failed()
            assert getattr(error, "code", "") == "TG:ErrXaNotKnown"
            assert str(Xid.parse_text("'before'")) in str(error)
    # From a place before the PREPARE all rows are there.
    with Pulled(db, tmp_path / "early", start=start) as p:
        p.caught_up()
        assert [(p.rows(),)] == db.execute("SELECT COUNT(*) FROM d.t")


def _now(db: Database) -> str:
    file, pos = db.execute("SHOW MASTER STATUS")[0][:2]
    return f"{file}:{pos}"


def test_prepared_and_ended_over_segments_and_a_restart(db: Database, tmp_path: Path) -> None:
    with Pulled(db, tmp_path / "log", log={"segment_bytes": 4096}) as p, _prepared(db, "'k'", 1):
        db.execute(*(f"INSERT INTO d.t VALUES ({i})" for i in range(100, 200)))
        p.caught_up()
        p.pause()
        p.resume()
        p.caught_up()
        assert p.writer.state.segment > 1
        db.execute("XA COMMIT 'k'")
        p.caught_up()
        assert [(p.rows(),)] == db.execute("SELECT COUNT(*) FROM d.t")


def test_what_a_server_has_lost_does_not_come_with_its_xid(db: Database, tmp_path: Path) -> None:
    """A PREPARE that a crash took out of the engine is in the binlog for good, without an end."""
    with Pulled(db, tmp_path / "log") as p:
        for restart in (False, True):
            _lose(db, "'lost'", 1)
            if restart:
                p.caught_up()
                p.pause()
                p.resume()
            _prepare(db, "'lost'", 2 + restart)
            db.execute("XA COMMIT 'lost'")
        p.caught_up()
        assert db.execute("SELECT id FROM d.t ORDER BY id") == [(2,), (3,)]
        assert p.rows() == 2
        # Prepared again and rolled back, it holds nothing of the log any more.
        _lose(db, "'lost'", 4)
        p.caught_up()
        assert p.writer.state.prepared_from
        _prepare(db, "'lost'", 4)
        db.execute("XA ROLLBACK 'lost'")
        p.caught_up()
        assert not p.writer.state.prepared_from
        assert p.rows() == 2


def _lose(db: Database, xid: str, row: int) -> None:
    """Its end is in no binlog, as that of one that a crash has taken away."""
    _prepare(db, xid, row)
    db.execute("SET sql_log_bin = 0", f"XA ROLLBACK {xid}")


def test_who_may_not_ask_is_told(database: Callable[..., Database]) -> None:
    db = database("mysql-8.0")
    db.execute(
        "DROP USER IF EXISTS blind@'%'",
        "CREATE USER blind@'%' IDENTIFIED BY 'p'",
        "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO blind@'%'",
    )
    info = UpstreamInfo(name="u", uri=db.uri("blind", "p"))
    found = [f for f in check_upstream(info, SourceSettings()) if "XA" in f.what]
    assert [(f.statement, f.fatal) for f in found] == [
        ("GRANT XA_RECOVER_ADMIN ON *.* TO 'blind'@'%'", False)
    ]
    db.execute(found[0].statement)
    assert not [f for f in check_upstream(info, SourceSettings()) if "XA" in f.what]
