"""A server that crashed while it wrote a transaction: rolled back there, and so in the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.database import Database, database
from tests.source.pulling import Pulled

T = "CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT)"
_IN_USE_AT = 4 + 17
_XID = 16


def _events(data: bytes) -> list[tuple[int, int]]:
    """(offset, type code) of each event."""
    at, found = 4, []
    while at < len(data):
        found.append((at, data[at + 4]))
        at += int.from_bytes(data[at + 9 : at + 13], "little")
    return found


def _cut_last_transaction(db: Database) -> int:
    """Make the newest file end as one does whose last transaction was not written to its end."""
    path = db.binlogs()[-1]
    data = bytearray(path.read_bytes())
    xid = [at for at, code in _events(data) if code == _XID][-1]
    del data[xid:]
    # A file that was not closed says so in its first event.
    data[_IN_USE_AT] |= 1
    path.write_bytes(bytes(data))
    return len(data)


@pytest.mark.parametrize("segment_bytes", [1 << 20, 64 << 20])
@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.4"])
def test_a_transaction_cut_by_a_crash_is_rolled_back(
    name: str, segment_bytes: int, tmp_path: Path
) -> None:
    with database(name) as db:
        db.execute("CREATE DATABASE d", T)
        log = {"segment_bytes": segment_bytes}
        with Pulled(db, tmp_path / "log", log=log, group_commit_ms=10_000) as p:
            db.execute("INSERT INTO d.t VALUES (1, 'before')")
            p.caught_up()
            p.pause()
            many = (f"INSERT INTO d.t VALUES ({i}, REPEAT('x', 400000))" for i in range(10, 22))
            db.execute("INSERT INTO d.t VALUES (2, 'away')", "BEGIN", *many, "COMMIT")
            db.kill()
            length = _cut_last_transaction(db)
            path = db.binlogs()[-1]
            db.start()
            kept = path.stat().st_size
            db.execute("INSERT INTO d.t VALUES (3, 'after')")
            p.resume()
            p.caught_up()
            # MySQL cuts the rest of the transaction off its file; MariaDB leaves it there.
            assert kept >= length
            assert p.rows() == 3
            db.execute("INSERT INTO d.t VALUES (4, 'more')", "FLUSH BINARY LOGS")
            p.caught_up()
            p.pause()
            p.resume()
            db.execute("INSERT INTO d.t VALUES (5, 'end')")
            p.caught_up()
            assert p.rows() == 5
            assert p.error is None
        from cdc.changelog.verify import verify

        assert verify(tmp_path / "log") == []
