"""What a consistent snapshot says that it sees, beside what it does see, on real servers."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from cdc.base.position import TransactionName
from cdc.coord.messages import UpstreamInfo
from cdc.snapshot.moment import Moment, ShownEvent, begin_known, known
from cdc.snapshot.visibility import wait_until_visible
from cdc.source.position import UpstreamPosition
from cdc.source.snapshot import current_position
from tests import servers
from tests.servers.database import Database
from tests.threads import running

_WRITERS = 4
_MOMENTS = 30
# So many rows of each writer before and behind a moment.
_LOOKED_AT = 300
_ROTATE_EVERY_S = 1.0


@pytest.fixture(scope="module", params=["mariadb-11.4", "mysql-8.0"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A server of the test's own, as it changes its binlog's file all the time."""
    with servers.database(request.param) as server:
        server.execute("CREATE DATABASE d")
        yield server


class _Writer:
    """Commits one row after the other; of each the name that the server has given it."""

    def __init__(self, db: Database, number: int, stop: threading.Event, xa: bool) -> None:
        self.number = number
        self.names: list[TransactionName] = []
        self._db, self._stop, self._xa = db, stop, xa

    def run(self) -> None:
        with self._db.connect(database="d", autocommit=True) as one, one.cursor() as cursor:
            mysql = self._db.kind == "mysql"
            source = f"00000000-0000-0000-0000-00000000000{self.number}"
            while not self._stop.is_set():
                n = len(self.names) + 1
                # Its XA PREPARE has one of its own.
                sequence = 2 * n if self._xa else n
                if mysql:
                    cursor.execute(f"SET gtid_next = '{source}:{2 * n - 1 if self._xa else n}'")
                insert = f"INSERT INTO t VALUES ({self.number}, {n})"
                xid = f"'{self.number}-{n}'"
                if self._xa:
                    for sql in (f"XA START {xid}", insert, f"XA END {xid}", f"XA PREPARE {xid}"):
                        cursor.execute(sql)
                    if mysql:
                        cursor.execute(f"SET gtid_next = '{source}:{sequence}'")
                    cursor.execute(f"XA COMMIT {xid}")
                else:
                    cursor.execute(insert)
                if mysql:
                    self.names.append(TransactionName(0, source, sequence, 0))
                else:
                    cursor.execute("SELECT @@last_gtid")
                    gtid, _, last = cursor.fetchone()[0].rpartition("-")
                    self.names.append(TransactionName(0, gtid, int(last), 0))


@contextmanager
def _writing(db: Database) -> Iterator[list[_Writer]]:
    stop = threading.Event()
    made = [_Writer(db, n, stop, n == _WRITERS) for n in range(1, _WRITERS + 1)]

    def rotate() -> None:
        while not stop.wait(_ROTATE_EVERY_S):
            db.execute("FLUSH BINARY LOGS")

    with running([*(writer.run for writer in made), rotate], stop):
        yield made


def test_it_sees_what_it_says(db: Database) -> None:
    db.execute("DROP TABLE IF EXISTS d.t", "CREATE TABLE d.t (w INT, n INT, KEY (w, n))")
    info = UpstreamInfo(name="u", uri=db.uri(), server_kind=db.kind)
    moments = []
    with _writing(db) as writers, closing(db.connect(database="d", autocommit=True)) as asked:
        time.sleep(0.5)
        for _ in range(_MOMENTS):
            since = current_position(asked, db.kind)
            wait_until_visible(asked, info, since)
            with closing(db.connect(database="d", autocommit=True)) as one:
                moment = begin_known(one, db.kind, since)
                with one.cursor() as cursor:
                    cursor.execute("SELECT w, MAX(n) FROM t GROUP BY w")
                    moments.append((moment, dict(cursor.fetchall())))
    told: defaultdict[bool | None, int] = defaultdict(int)
    near: defaultdict[bool | None, int] = defaultdict(int)
    for moment, seen in moments:
        for writer in writers:
            last = seen[writer.number]
            for n in range(max(1, last - _LOOKED_AT), min(len(writer.names), last + _LOOKED_AT)):
                name = writer.names[n - 1]
                says = moment.sees(name)
                told[says] += 1
                if says is not None:
                    assert says == (n <= last), (moment, name, n, seen)
                if abs(n - last) <= 2:
                    near[says] += 1
    assert told[True]
    assert told[False]
    # Of some that lie next to a moment it is known, too; how many depends on the machine.
    assert near[True]
    assert near[False]


_GROUPS = (
    ("Gtid", "BEGIN GTID 0-1-8", 100),
    ("Xid", "COMMIT /* xid=6 */", 200),
    ("Gtid", "GTID 0-1-9", 300),
    ("Query", "XA COMMIT X'61',X'',1", 400),
    ("Gtid", "BEGIN GTID 0-1-10 cid=7", 500),
    ("Xid", "COMMIT /* xid=9 */", 600),
)


def _told(pos: int, last: int, *behind: ShownEvent) -> Moment:
    """Of a MariaDB that shows these groups, and whose moment is at an offset."""
    since = UpstreamPosition("bin.000002", 50, "0-1-7")
    events = [ShownEvent(*group) for group in _GROUPS if group[2] <= pos]
    return known(since, UpstreamPosition("bin.000002", pos, f"0-1-{last}"), [*events, *behind])


def _sees(moment: Moment, *numbers: int) -> list[bool | None]:
    return [moment.sees(TransactionName(0, "0-1", n, 0)) for n in numbers]


def test_what_mariadb_shows_of_a_moment() -> None:
    assert _sees(_told(50, 7), 7, 8) == [True, False]
    # The engine has an XA COMMIT later than the binlog, but what other commits end with before.
    assert _sees(_told(600, 10), 7, 8, 9, 10, 11) == [True, True, None, True, False]
    # What the binlog has of its own tells nothing of what is before it.
    of_its_own = ShownEvent("Binlog_checkpoint", "bin.000001", 700)
    assert _sees(_told(700, 10, of_its_own), 8, 10, 11) == [None, None, False]
    # The end of a group that has not been shown.
    assert _sees(_told(450, 9), 8, 10) == [None, False]
