"""A log that takes the place of another: every position that is named lies in it where it was."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cdc.base.position import Position, Stand, TransactionName
from cdc.base.ts import Ts
from cdc.changelog import origin
from cdc.changelog.origin import Origin, pinned
from cdc.changelog.reader import ChangeLog
from cdc.source.errors import TransactionMoved
from processor.transaction_names import strangers
from tests import seeds
from tests.servers.database import Database
from tests.source.pulling import Pulled


@pytest.fixture(params=["mysql-8.0", "mysql-8.0 without GTIDs", "mariadb-11.4"])
def db(request: pytest.FixtureRequest, database: Callable[..., Database]) -> Database:
    name, _, without = request.param.partition(" without ")
    server = database(name, gtid=False) if without else database(name)
    server.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d")
    return server


def _load(db: Database, seconds: float) -> None:
    """Transactions with pauses in which the log resolves; some began long before they end."""
    db.execute("CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB")
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        n += 1
        db.execute("BEGIN", "INSERT INTO d.t (v) VALUES (1), (2)", "COMMIT")
        if n % 3 == 0:
            # Its time is when it began: the log has resolved more by the time that it ends.
            db.execute("UPDATE d.t SET v = v + 1 WHERE id = 1 AND SLEEP(0.5) = 0")
        if n % 4 == 0:
            db.execute(f"CREATE TABLE d.u{n} (id INT PRIMARY KEY)")
        if n % 5 == 0:
            held = ["BEGIN", "INSERT INTO d.t (v) VALUES (3)", "SAVEPOINT s"]
            db.execute(*held, "INSERT INTO d.t (v) VALUES (4)", "ROLLBACK TO s", "COMMIT")
        time.sleep(0.1)


def _order(log: ChangeLog) -> list[TransactionName]:
    """Each transaction of a log, in order."""
    state = log.refresh()
    rows = log.runs(Position(state.first_ts), Position(state.resolved_ts)).commit_ts
    ddls = log.ddls(state.first_ts, state.resolved_ts).commit_ts
    named = [log.transaction_at(ts) for ts in np.unique(np.concatenate([rows, ddls])).tolist()]
    return [name for name in named if name is not None]


def _positions(log: ChangeLog, count: int) -> dict[Ts, TransactionName]:
    """Positions anywhere up to the end: at transactions, below them, and between them."""
    state, draw = log.refresh(), random.Random(seeds.seed())
    order = _order(log)
    some = [n.ts - below for n in draw.sample(order, min(count, len(order))) for below in (0, 1)]
    some += [draw.randint(state.first_ts, state.resolved_ts) for _ in range(count)]
    found = {ts: log.transaction_at(ts) for ts in [*some, state.resolved_ts]}
    return {ts: name for ts, name in found.items() if name is not None}


def test_positions_lie_where_they_were(db: Database, tmp_path: Path) -> None:
    with Pulled(db, tmp_path / "log", standing_s=0.1) as p:
        _load(db, 4)
        p.caught_up()
    with closing(ChangeLog.open(p.folder)) as log:
        before, named = _order(log), _positions(log, 12)
        stands = [Stand(ts, transactions={ts: name}) for ts, name in named.items()]
        assert strangers(stands, log, None) == []
        floor, pins = pinned(named.items(), log.state.first_ts)
    with p.anew(tmp_path / "anew", Origin.new(floor, pins)) as again:
        db.execute("INSERT INTO d.t (v) VALUES (5)")
        again.caught_up()
    with closing(ChangeLog.open(again.folder)) as log:
        after, begun = _order(log), origin.load(again.folder)
        assert strangers(stands, log, begun) == []
    assert [n[1:] for n in after] == [n[1:] for n in before] + [after[-1][1:]]
    # What is behind the last position has a ts above it, so no row is left out or comes twice.
    for ts in named:
        below = [n[1:] for n in before if n.ts <= ts]
        assert [n[1:] for n in after if n.ts <= ts] == below
    if p.info.server_kind != "mariadb":
        # Its transactions have the time of their commit, in microseconds: hardly any other ts.
        return
    # Control: left to itself, a log gives other ts, and that is seen.
    with p.anew(tmp_path / "free", Origin.new()) as free:
        free.caught_up()
    with closing(ChangeLog.open(free.folder)) as log:
        assert [n[1:] for n in _order(log)] == [n[1:] for n in after]
        assert _order(log) != after
        assert strangers(stands, log, origin.load(free.folder))


def test_a_position_that_the_server_does_not_have(db: Database, tmp_path: Path) -> None:
    """A server that took the place of another, without its last transactions, is told."""
    with Pulled(db, tmp_path / "log") as p:
        _load(db, 1)
        p.caught_up()
    with closing(ChangeLog.open(p.folder)) as log:
        last, first_ts = _order(log)[-1], log.state.first_ts
    file = last.file if last.source else last.file + 1
    lost = last._replace(ts=last.ts + 9, sequence=last.sequence + 1000, file=file)
    floor, pins = pinned([(lost.ts, lost)], first_ts)
    with p.anew(tmp_path / "anew", Origin.new(floor, pins)) as again:
        again.until(lambda: any(_code(s) == "TG:ErrTransactionMissing" for s in again.statuses))
        resolved = again.writer.state.resolved_ts
        assert resolved < lost.ts
    # And one that it had before another that should come first: the order is not the same.
    first = _first(p)
    swapped = [(last.ts, last), (last.ts + 5, first._replace(ts=last.ts + 5))]
    floor, pins = pinned(swapped, first_ts)
    with p.anew(tmp_path / "swapped", Origin.new(floor, pins)) as again:
        error = again.failed()
        assert isinstance(error, TransactionMoved)


def _first(p: Pulled) -> TransactionName:
    with closing(ChangeLog.open(p.folder)) as log:
        return _order(log)[0]


def _code(status: object) -> str:
    error = getattr(status, "error", None)
    return error.code if error else ""
