"""A log begins anew where XA transactions are prepared, and has their rows when they commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from pymysql.err import MySQLError

from cdc.base.clock import SystemClock
from cdc.base.position import Position
from cdc.changelog.reader import ChangeLog
from cdc.coord.anchors import Anchors
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import Anchor
from cdc.source.anchor_place import AnchorPlaces, WhenPrepared
from cdc.source.anchoring import Anchoring
from cdc.source.errors import XaNotKnown
from tests.servers.database import Database
from tests.source.pulling import Pulled
from tests.waiting import until


class Anchored:
    """A log, and what the store has of it."""

    def __init__(self, p: Pulled, store: EmbeddedStore) -> None:
        self.p = p
        self.anchors = Anchors(store, Keys(), "u")

    def run(self, when: WhenPrepared | None = None) -> bool:
        """Try to write an anchor where the log stands; as one that pulls it after a restart."""
        maria = self.p.info.server_kind == "mariadb"
        when = when or (WhenPrepared.WAIT if maria else WhenPrepared.BY_GTIDS)
        anchoring = Anchoring(self.p.folder, self.anchors, (), "a", when)
        return anchoring.run(self.p.writer.state, 0)

    def begin(self, anchor: Anchor, folder: Path) -> Pulled:
        """Another log of the upstream, which begins at an anchor."""
        return self.p.at_anchor(folder, anchor, self.anchors.schema(anchor))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with closing(EmbeddedStore(tmp_path / "meta.db", SystemClock())) as store:
        yield store


class Branches:
    """XA transactions on ``d.t``, each on a connection that is let go once it is prepared."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def prepare(self, xid: str, *rows: int) -> None:
        inserts = (f"INSERT INTO d.t VALUES ({row})" for row in rows)
        self.db.execute(f"XA START '{xid}'", *inserts, f"XA END '{xid}'", f"XA PREPARE '{xid}'")

    def end(self, xid: str, how: str = "COMMIT") -> None:
        """As soon as the server has let the connection go that has prepared it."""

        def ended() -> bool:
            with suppress(MySQLError):
                self.db.execute(f"XA {how} '{xid}'")
                return True
            return False

        until(ended, f"XA {how} '{xid}'")


def _transactions(folder: Path, above: int) -> list[tuple[str, int, int]]:
    """Source and number of each transaction above a ts, in order, and how many rows it has."""
    with closing(ChangeLog.open(folder)) as log:
        state = log.refresh()
        runs = log.runs(Position(max(above, state.first_ts)), Position(state.resolved_ts))
        log.verify(runs)
        found = []
        for ts in np.unique(runs.commit_ts).tolist():
            name = log.transaction_at(ts)
            assert name is not None
            rows = int(runs.rows[runs.commit_ts == ts].sum())
            found.append((name.source, name.sequence, rows))
        return found


def test_rows_of_what_is_prepared_come_with_its_commit(
    database: Callable[..., Database], store: EmbeddedStore, tmp_path: Path
) -> None:
    db = database("mysql-8.0")
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", "CREATE TABLE d.t (id INT)")
    branches = Branches(db)
    with Pulled(db, tmp_path / "log", standing_s=0.1) as p:
        db.execute("INSERT INTO d.t VALUES (1)")
        branches.prepare("kept", 2, 3)
        # It lies in another file than where the new log goes on.
        db.execute("FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (4)")
        branches.prepare("none")
        branches.prepare("undone", 5)
        branches.prepare("over", 6)
        branches.end("over")
        p.caught_up()
        one = Anchored(p, store)
        assert one.run()
        anchor = one.anchors.all()[-1]
        db.execute("INSERT INTO d.t VALUES (7)", "CREATE TABLE d.u (id INT)")
        with one.begin(anchor, tmp_path / "anew") as anew:
            anew.caught_up()
            # Killed here, it goes on from what is durable.
            anew.pause()
            anew.resume()
            branches.end("kept")
            branches.end("none")
            branches.end("undone", "ROLLBACK")
            anew.caught_up()
            p.caught_up()
        assert anew.rows() == 3
        assert _transactions(anew.folder, anchor.ts) == _transactions(p.folder, anchor.ts)

        # Control: where the log itself stood, the server sends nothing of what was prepared.
        branches.prepare("late", 8)
        p.caught_up()
        assert one.run()
        at = one.anchors.all()[-1]
        wrong = at.model_copy(update={"position": p.writer.state.position})
        assert wrong.position != at.position
        with one.begin(wrong, tmp_path / "wrong") as without:
            branches.end("late")
            assert isinstance(without.failed(), XaNotKnown)


@pytest.mark.parametrize("name", ["mysql-8.0 without GTIDs", "mariadb-11.4"])
def test_others_wait_until_nothing_is_prepared(
    name: str, database: Callable[..., Database], store: EmbeddedStore, tmp_path: Path
) -> None:
    server, _, without = name.partition(" without ")
    db = database(server, gtid=False) if without else database(server)
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", "CREATE TABLE d.t (id INT)")
    branches = Branches(db)
    with Pulled(db, tmp_path / "log", standing_s=0.1) as p:
        branches.prepare("a", 1)
        p.caught_up()
        one = Anchored(p, store)
        assert not one.run()
        branches.end("a")
        p.caught_up()
        assert one.run()


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
@pytest.mark.parametrize("segment_bytes", [4096, 1 << 20])
def test_what_a_node_of_a_cluster_has_prepared_is_known_from_log_to_log(
    name: str,
    segment_bytes: int,
    database: Callable[..., Database],
    store: EmbeddedStore,
    tmp_path: Path,
) -> None:
    db = database(name)
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", "CREATE TABLE d.t (id INT)")
    branches = Branches(db)
    filling = [f"INSERT INTO d.t VALUES {', '.join(['(0)'] * 400)}"] * 3

    def anchored(p: Pulled) -> list[str]:
        """Xids of an anchor where a log stands now, without their number of the format."""
        one = Anchored(p, store)
        p.caught_up()
        until(lambda: one.run(WhenPrepared.NOT_NEEDED), "the log has resolved more")
        found = one.anchors.all()[-1].prepared
        assert all(xid.endswith(",X'',1") for xid in found)
        return [bytes.fromhex(xid.split("'")[1]).decode() for xid in found]

    small = {"segment_bytes": segment_bytes}
    with Pulled(db, tmp_path / "log", standing_s=0.1, log=small) as p:
        for xid in ("a", "b", "c"):
            branches.prepare(xid, 1)
        assert anchored(p) == ["a", "b", "c"]
        anchors = Anchored(p, store).anchors
        again = Anchored(p, store).begin(anchors.all()[-1], tmp_path / "again")
    with again:
        assert anchored(again) == ["a", "b", "c"]
        branches.end("a")
        db.execute(*filling)
        assert anchored(again) == ["b", "c"]
        # Killed and taken up again, it knows the same.
        again.pause()
        again.resume()
        branches.prepare("d", 4)
        branches.end("b", "ROLLBACK")
        db.execute(*filling)
        assert anchored(again) == ["c", "d"]
        third = Anchored(again, store).begin(anchors.all()[-1], tmp_path / "third")
    assert (len(again.writer.state.closed) > 1) is (segment_bytes < 1 << 20)
    with third:
        branches.end("c")
        branches.end("d")
        branches.prepare("a", 7)
        assert anchored(third) == ["a"]
        branches.end("a")
        assert anchored(third) == []
    # Only what was prepared in it has rows.
    assert third.rows() == 1


def test_there_are_anchors_where_something_is_always_prepared(
    database: Callable[..., Database], store: EmbeddedStore, tmp_path: Path
) -> None:
    """As under a coordinator: each branch is prepared before the one before it ends."""
    db = database("mysql-8.0")
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", "CREATE TABLE d.t (id INT)")
    over = threading.Event()

    def overlap(lane: int) -> None:
        branches, n = Branches(db), 0
        branches.prepare(f"{lane}-0", lane)
        while not over.is_set():
            branches.prepare(f"{lane}-{n + 1}", lane, n)
            branches.end(f"{lane}-{n}", "ROLLBACK" if n % 7 == 3 else "COMMIT")
            n += 1
        branches.end(f"{lane}-{n}")

    small = {"segment_bytes": 4096}
    with Pulled(db, tmp_path / "log", standing_s=0.1, log=small) as p:
        one = Anchored(p, store)
        lanes = [threading.Thread(target=overlap, args=(lane,)) for lane in range(3)]
        for lane in lanes:
            lane.start()
        try:
            kept, seen = AnchorPlaces(p.folder, WhenPrepared.BY_GTIDS), 0

            def at_some_states() -> bool:
                """Read as the log grows, or all at once: the place is the same."""
                nonlocal seen
                state = p.writer.state
                if state.prepared_from:
                    new = AnchorPlaces(p.folder, WhenPrepared.BY_GTIDS)
                    assert kept.at(state) == new.at(state)
                    seen += 1
                return seen > 20 and p.rows() > 60

            p.until(at_some_states)
            state = p.writer.state
            assert state.prepared_from
            assert len(state.closed) > 3
            assert one.run()
            anchor = one.anchors.all()[-1]
            with one.begin(anchor, tmp_path / "anew") as anew:
                anew.until(lambda: len(_transactions(anew.folder, anchor.ts)) > 30)
                over.set()
                for lane in lanes:
                    lane.join()
                anew.caught_up()
                p.caught_up()
        finally:
            over.set()
            for lane in lanes:
                lane.join()
        there = _transactions(p.folder, anchor.ts)
        assert len(there) > 30
        assert _transactions(anew.folder, anchor.ts) == there
