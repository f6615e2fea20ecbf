"""A transaction that is in the binlog and that no SELECT sees yet, on real servers.

Semi-synchronous replication makes one: with AFTER_SYNC and no replica that answers, a transaction
stands between its binlog and its engine's commit for as long as the test wants.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from cdc.base.errors import InvalidError, TransientError
from cdc.base.position import TransactionName
from cdc.binlog.gtid_set import GtidSet
from cdc.coord.messages import UpstreamInfo
from cdc.snapshot.moment import begin_known
from cdc.snapshot.visibility import end_of_seen, wait_until_visible
from cdc.source.position import UpstreamPosition, file_number
from cdc.source.snapshot import current_position
from tests import servers
from tests.servers.database import Database
from tests.waiting import until

_MYSQL = (
    "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
    "SET GLOBAL rpl_semi_sync_source_timeout = 3600000",
    "SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_SYNC",
    "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON",
)
_MARIADB = (
    "SET GLOBAL rpl_semi_sync_master_timeout = 3600000",
    "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC",
    "SET GLOBAL rpl_semi_sync_master_wait_no_slave = ON",
)
_SHORT_S = 0.8


@pytest.fixture(scope="module", params=["mysql-8.0", "mysql-8.0 without GTIDs", "mariadb-11.4"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A server of the test's own, as it makes all its commits wait."""
    name, _, how = request.param.partition(" ")
    with servers.database(name, gtid=not how) as server:
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY)",
            *(_MARIADB if server.kind == "mariadb" else _MYSQL),
        )
        yield server


@pytest.fixture
def connection(db: Database) -> Iterator[Any]:
    db.execute("DELETE FROM d.t")
    with closing(db.connect()) as made:
        yield made


def test_a_commit_that_waits_is_waited_for(db: Database, connection: Any) -> None:
    # In a new file MariaDB writes of its own accord behind the transaction that waits.
    db.execute("FLUSH BINARY LOGS")
    with _stalled(db, 1) as release:
        time.sleep(0.2)
        position = _log_position(db, connection)
        # Of what may be seen at any moment now, the set of executed GTIDs has nothing.
        assert end_of_seen(connection, db.kind).covers(position, db.kind)
        with pytest.raises(TransientError) as caught:
            wait_until_visible(connection, _info(db), position, _SHORT_S)
        assert caught.value.code == "TG:ErrSnapshotNotVisible"
        assert not db.execute("SELECT * FROM d.t")
        threading.Timer(0.5, release).start()
        wait_until_visible(connection, _info(db), position, 20.0)
        assert db.execute("SELECT * FROM d.t") == [(1,)]


def test_a_moment_does_not_say_that_it_sees_it(db: Database, connection: Any) -> None:
    db.execute("INSERT INTO d.t VALUES (0)", "FLUSH BINARY LOGS")
    since = current_position(connection, db.kind)
    with _stalled(db, 1) as release:
        position = _log_position(db, connection)
        name = _last_of(position, db.kind)
        if db.kind == "mariadb":
            # Once the engine has flushed what was in the file before.
            until(lambda: _last_event(db) == "Binlog_checkpoint", "a checkpoint is written", 10)
        with closing(db.connect()) as one:
            # What MariaDB has written behind it is where it says that the moment is.
            assert begin_known(one, db.kind, since).sees(name) is not True
            assert not _run(one, "SELECT * FROM d.t WHERE id = 1")
        release()
        wait_until_visible(connection, _info(db), position, 20.0)
        since = current_position(connection, db.kind)
        with closing(db.connect()) as one:
            told = begin_known(one, db.kind, since).sees(name)
            # Without GTIDs a server of MySQL has no word for what a moment sees.
            assert told is (None if since.gtid is None else True)
            assert _run(one, "SELECT * FROM d.t WHERE id = 1") == [(1,)]


def test_it_can_be_stopped(db: Database, connection: Any) -> None:
    stop = threading.Event()
    with _stalled(db, 1):
        threading.Timer(0.3, stop.set).start()
        began = time.monotonic()
        with pytest.raises(TransientError, match="stopped"):
            wait_until_visible(
                connection, _info(db), _log_position(db, connection), 60.0, stop=stop
            )
        assert time.monotonic() - began < 5


def test_what_is_at_work_otherwise_is_not_waited_for(db: Database, connection: Any) -> None:
    """Open transactions that sleep, and statements that write on and on."""
    with closing(db.connect(autocommit=False)) as idle, closing(db.connect()) as busy:
        _run(idle, "INSERT INTO d.t VALUES (1)")
        _run(busy, "CREATE TABLE IF NOT EXISTS d.s (a INT)", "INSERT INTO d.s VALUES (1), (2)")
        digits = "(" + " UNION ALL ".join(f"SELECT {i} AS d" for i in range(10)) + ")"
        crossed = ", ".join(f"{digits} AS d{i}" for i in range(3))
        slow = f"INSERT INTO d.s SELECT SLEEP(0.01) FROM {crossed}"
        writing = threading.Thread(target=_quietly, args=(busy, slow), daemon=True)
        writing.start()
        db.execute("INSERT INTO d.t VALUES (2)")
        position = current_position(connection, db.kind)
        wait_until_visible(connection, _info(db), position, 3.0)
        assert writing.is_alive()
        db.execute(f"KILL {busy.thread_id()}")
        writing.join(10)


def test_a_place_that_the_server_never_had(db: Database, connection: Any) -> None:
    here = current_position(connection, db.kind)
    gtid = "11111111-1111-1111-1111-111111111111:1" if here.gtid and db.kind == "mysql" else None
    later = UpstreamPosition("bin.000777", 4, gtid)
    with pytest.raises(TransientError) as caught:
        wait_until_visible(connection, _info(db), later, 0.3)
    assert caught.value.code == "TG:ErrSnapshotNotVisible"


def test_the_right_that_is_needed_is_named(db: Database) -> None:
    db.execute(
        "CREATE USER IF NOT EXISTS small@'%'",
        "GRANT REPLICATION CLIENT ON *.* TO small@'%'",
        # MariaDB's binlog is shown to whoever has the first.
        "GRANT SELECT ON d.* TO small@'%'",
    )
    with closing(db.connect(user="small", host="127.0.0.1")) as small:
        position = current_position(small, db.kind)
        if db.kind == "mysql" and position.gtid is not None:
            wait_until_visible(small, _info(db), position, 3.0)
            return
        with pytest.raises(InvalidError, match="GRANT PROCESS") as caught:
            wait_until_visible(small, _info(db), position, 3.0)
        assert caught.value.code == "TG:ErrUpstreamNotReady"


def test_the_bounds_of_a_busy_server_hold(db: Database, connection: Any) -> None:
    """Every transaction inserts one row, so the binlog says how many a SELECT must see."""
    db.execute("FLUSH BINARY LOGS")
    start = current_position(connection, db.kind)
    stop = threading.Event()
    writing = [threading.Thread(target=_write, args=(db, stop, n), daemon=True) for n in (0, 1)]
    for thread in writing:
        thread.start()
    try:
        time.sleep(0.2)
        before = current_position(connection, db.kind)
        wait_until_visible(connection, _info(db), before)
        seen = _run(connection, "SELECT COUNT(*) FROM d.t")[0][0]
        after = end_of_seen(connection, db.kind)
        assert 0 < _inserted(db, start, before) <= seen
        assert seen <= _inserted(db, start, after)
    finally:
        stop.set()
        for thread in writing:
            thread.join(20)


# --- what the tests share ---------------------------------------------------------------------


def _info(db: Database) -> UpstreamInfo:
    return UpstreamInfo(name="u", uri=db.uri(), server_kind=db.kind)


@contextmanager
def _stalled(db: Database, number: int) -> Iterator[Any]:
    """A row that is in the binlog and stays unseen until what is given is called."""
    role = "master" if db.kind == "mariadb" else "source"

    def release() -> None:
        db.execute(f"SET GLOBAL rpl_semi_sync_{role}_enabled = OFF")

    before = _binlog_end(db)
    db.execute(f"SET GLOBAL rpl_semi_sync_{role}_enabled = ON")
    writing = threading.Thread(
        target=db.execute, args=(f"INSERT INTO d.t VALUES ({number})",), daemon=True
    )
    writing.start()
    try:
        end = time.monotonic() + 10
        while _binlog_end(db) == before and time.monotonic() < end:
            time.sleep(0.02)
        assert _binlog_end(db) != before
        yield release
    finally:
        release()
        writing.join(20)


def _log_position(db: Database, connection: Any) -> UpstreamPosition:
    """What the log says whose dump has the stalled transaction, as the dump has it before."""
    here = current_position(connection, db.kind)
    if db.kind == "mariadb" or here.gtid is None:
        return here
    uuid, _, numbers = here.gtid.rpartition(":")
    last = int(numbers.rpartition("-")[2])
    return UpstreamPosition(here.file, here.pos, f"{uuid}:1-{last + 1}")


def _last_of(position: UpstreamPosition, kind: str) -> TransactionName:
    """The name of the last transaction before a position."""
    if position.gtid is None:
        return TransactionName(0, "", position.pos - 1, file_number(position.file))
    mark = "-" if kind == "mariadb" else ":"
    source, _, numbers = position.gtid.rpartition(mark)
    return TransactionName(0, source.rpartition(",")[2], int(numbers.rpartition("-")[2]), 0)


def _last_event(db: Database) -> str:
    file = _binlog_end(db)[0]
    return str(db.execute(f"SHOW BINLOG EVENTS IN '{file}'")[-1][2])


def _binlog_end(db: Database) -> tuple[Any, ...]:
    return db.execute("SHOW MASTER STATUS")[0][:2]


def _inserted(db: Database, start: UpstreamPosition, end: UpstreamPosition) -> int:
    """Transactions between two positions, by GTIDs or by what the server shows of its binlog."""
    if db.kind == "mysql" and start.gtid is not None:
        return GtidSet.parse(str(end.gtid)).count() - GtidSet.parse(start.gtid).count()
    assert start.file == end.file
    events = db.execute(f"SHOW BINLOG EVENTS IN '{end.file}'")
    return sum(1 for e in events if e[2] == "Xid" and start.pos < e[4] <= end.pos)


def _write(db: Database, stop: threading.Event, parity: int) -> None:
    with closing(db.connect()) as connection:
        number = 1000 + parity
        while not stop.is_set():
            _run(connection, f"INSERT INTO d.t VALUES ({number})")
            number += 2
            time.sleep(0.003)


def _quietly(connection: Any, sql: str) -> None:
    try:
        _run(connection, sql)
    except Exception:
        return


def _run(connection: Any, *statements: str) -> list[Any]:
    with connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)
        return list(cursor.fetchall())
