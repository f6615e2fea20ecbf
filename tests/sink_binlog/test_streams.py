"""Several streams: each alone is in order and exactly once, and all of them are the upstream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc.base.ids import FeedId
from cdc.base.position import START
from cdc.binlog.query import StatusVariables
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl, read_delivered
from cdc.schema.session import Session
from sink.binlog.changer import StreamChanger
from sink.binlog.errors import BinlogRowsMove, BinlogStreamsFixed
from sink.binlog.ledger import StreamLedger
from sink.binlog.streams import Split, StreamAssignment, StreamsFolder, check_rows_stay
from sink.binlog.worker import StreamWindow
from sink.errors import FencedEpoch
from sink.file.ledger import Journal
from sink.open import open_sink
from sink.schema_change import Recorded, SchemaChange
from tests import servers
from tests.contract.targets import SLOTS, TABLES
from tests.processor.dying import Dying, Forgetful
from tests.processor.in_process import InProcessJobs
from tests.servers import Database
from tests.sink_binlog.following import ServedInPlace, at_the_end, follow
from tests.sink_binlog.replay import deliver, files_of, replay
from tests.source.pulling import Pulled

A, B = "streams_x", "streams_y"
RULES = [f"{A}.*", f"{B}.*"]
STREAMS = 3
# A replica that knows nothing of what it has followed.
_FORGET = {
    "mariadb": ("STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL gtid_slave_pos = ''"),
    # Streams have parts of the same transactions, with the same GTIDs.
    "mysql": ("STOP REPLICA", "RESET REPLICA ALL", "RESET MASTER"),
}
_SESSION = Session(mariadb=True, version=(11, 4, 0), default_schema="shop")
Rows = dict[str, list[tuple[Any, ...]]]


class Written:
    """A log, and the rows that its upstream had at its end."""

    def __init__(self, db: Database, folder: Path) -> None:
        self.db, self.folder = db, folder
        self._clear()
        with Pulled(db, folder) as pulled:
            self._load()
            pulled.caught_up()
        log, _ = pulled.runs()
        self.start_ts = log.state.first_ts
        log.close()
        self.rows = self._rows()
        self._clear()

    def _clear(self) -> None:
        self.db.execute(f"DROP DATABASE IF EXISTS {A}", f"DROP DATABASE IF EXISTS {B}")

    def _load(self) -> None:
        db = self.db
        db.execute(f"CREATE DATABASE {A} CHARSET utf8mb4", f"CREATE DATABASE {B} CHARSET utf8mb4")
        for name in (f"{A}.one", f"{A}.two", f"{B}.one", f"{B}.words"):
            key = "VARCHAR(20)" if name.endswith("words") else "INT"
            db.execute(f"CREATE TABLE {name} (id {key} PRIMARY KEY, v INT)")
        db.execute(f"CREATE TABLE {A}.nokey (n INT, v INT)")
        for i in range(40):
            with db.connect() as connection, connection.cursor() as cursor:
                connection.begin()
                for name in (f"{A}.one", f"{A}.{'two' if i < 20 else 'zwei'}", f"{B}.one"):
                    cursor.execute(f"INSERT INTO {name} VALUES ({3 * i}, 0), ({3 * i + 1}, 0)")
                    cursor.execute(f"UPDATE {name} SET v = v + 1 WHERE id % 5 = {i % 5}")
                cursor.execute(f"INSERT INTO {B}.words VALUES ('é{i}', 0)")
                # The key of a row moves, and another row's comes to its place.
                cursor.execute(f"UPDATE {B}.words SET id = CONCAT('x', id) WHERE id = 'é{i - 1}'")
                cursor.execute(f"UPDATE {A}.one SET id = -id WHERE id = {3 * i - 3} AND id > 0")
                cursor.execute(f"DELETE FROM {B}.one WHERE id = {3 * i - 9}")
                cursor.execute(f"INSERT INTO {A}.nokey VALUES ({i}, {i % 3})")
                connection.commit()
            if i == 19:
                db.execute(
                    f"ALTER TABLE {B}.one ADD COLUMN w INT DEFAULT 7 FIRST",
                    f"ALTER TABLE {B}.one MODIFY COLUMN w INT DEFAULT 7 AFTER v",
                    f"ALTER TABLE {B}.one DROP COLUMN w",
                    f"ALTER TABLE {A}.one MODIFY COLUMN id BIGINT",
                    f"RENAME TABLE {A}.two TO {A}.zwei",
                )

    def _rows(self) -> Rows:
        names = (f"{A}.one", f"{A}.zwei", f"{A}.nokey", f"{B}.one", f"{B}.words")
        return {n: self.db.execute(f"SELECT * FROM {n} ORDER BY 1, 2") for n in names}

    def of(self, folder: Path) -> Rows:
        """The rows that one stream gives to a server with nothing."""
        replay(self.db, files_of(folder))
        found = self._rows()
        self._clear()
        return found

    def deliver(self, root: Path, split: str, jobs: InProcessJobs | None = None) -> list[Path]:
        """Give the log to the sink; the folders of the streams."""
        uri = f"binlog://{root}?streams={STREAMS}&split={split}&file-size=16384"
        deliver(
            self.folder, uri, RULES, self.start_ts, jobs=jobs or InProcessJobs(), window=8 << 10
        )
        return StreamsFolder(root, STREAMS, Split(split)).folders


@pytest.fixture(scope="module")
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Written]:
    """Return a function that gives the log of a server."""
    known: dict[str, Written] = {}

    def give(kind: str) -> Written:
        if kind not in known:
            folder = tmp_path_factory.mktemp("log") / "log"
            known[kind] = Written(request.getfixturevalue(kind), folder)
        return known[kind]

    return give


@pytest.mark.real
@pytest.mark.parametrize(
    ("kind", "split"), [("mariadb", "database"), ("mariadb", "table"), ("mysql", "key")]
)
def test_all_streams_are_the_upstream(
    written: Callable[[str], Written], kind: str, split: str, tmp_path: Path
) -> None:
    log = written(kind)
    folders = log.deliver(tmp_path, split)
    found = [log.of(folder) for folder in folders]
    together = {n: sorted(row for rows in found for row in rows[n]) for n in log.rows}
    assert together == {n: sorted(rows) for n, rows in log.rows.items()}
    of = {n: {i for i, rows in enumerate(found) if rows[n]} for n in log.rows}
    if split == "key":
        assert all(len(streams) == STREAMS for n, streams in of.items() if "nokey" not in n)
        assert len(of[f"{A}.nokey"]) == 1
        return
    # By its new name a table would be elsewhere: it is where it was.
    assigned = StreamAssignment(STREAMS, Split(split))
    assert of == {n: {assigned.stream(_born(n))} for n in log.rows}
    moved = assigned.stream((A, "two")) != assigned.stream((A, "zwei"))
    assert moved is (split == "table")
    assert len(set().union(*of.values())) > 1


@pytest.mark.real
@pytest.mark.parametrize(("kind", "split"), [("mariadb", "table"), ("mysql", "key")])
def test_a_stock_replica_follows_each_stream(
    written: Callable[[str], Written], kind: str, split: str, tmp_path: Path
) -> None:
    log = written(kind)
    options = ["--server-id=78", "--skip-log-bin" if kind == "mariadb" else "--log-bin=x"]
    found: list[Rows] = []
    with servers.database(log.db.name, options=options) as replica:
        for folder in log.deliver(tmp_path, split):
            served = ServedInPlace(folder)
            follow(replica, served.server.port, None)
            at_the_end(replica, served)
            found.append({n: replica.execute(f"SELECT * FROM {n} ORDER BY 1, 2") for n in log.rows})
            served.server.close()
            stop, *forget = _FORGET[kind]
            replica.execute(stop, f"DROP DATABASE {A}", f"DROP DATABASE {B}", *forget)
    together = {n: sorted(row for rows in found for row in rows[n]) for n in log.rows}
    assert together == {n: sorted(rows) for n, rows in log.rows.items()}
    assert all(any(rows.values()) for rows in found)


def _born(name: str) -> tuple[str, str]:
    schema, table = name.replace("zwei", "two").split(".")
    return schema, table


@pytest.mark.real
@pytest.mark.parametrize(
    ("owner", "name"),
    [(StreamWindow, "commit"), (Journal, "append"), (StreamChanger, "execute"),
     (StreamsFolder, "keep")],
    ids=["between streams", "the line", "a change in some of them", "the assignment"],
)  # fmt: skip
def test_whoever_dies_leaves_each_stream_whole(
    written: Callable[[str], Written], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    owner: type, name: str,
) -> None:  # fmt: skip
    log = written("mariadb")
    dying = Dying(owner, name, before=False)
    if owner is StreamsFolder:
        # It is called once for each rename.
        dying.count = 5
    dying.put(monkeypatch)
    folders = log.deliver(tmp_path, "table", Forgetful())
    assert dying.deaths
    monkeypatch.undo()
    found = [log.of(folder) for folder in folders]
    together = {n: sorted(row for rows in found for row in rows[n]) for n in log.rows}
    assert together == {n: sorted(rows) for n, rows in log.rows.items()}


def test_renamed_tables_stay() -> None:
    before = StreamAssignment(8)
    a, b, spare = ("s", "a"), ("s", "b"), ("s", "t")
    swapped = before.renamed([(a, spare), (b, a), (spare, b)], 7)
    assert (swapped.stream(a), swapped.stream(b)) == (before.stream(b), before.stream(a))
    assert before.stream(a) != before.stream(b)
    assert swapped.renamed([(a, spare), (b, a), (spare, b)], 7) is swapped, "not done twice"
    back = swapped.renamed([(a, spare), (b, a), (spare, b)], 8)
    assert not back.placed


@pytest.mark.parametrize("other", ["streams=4&split=key", "streams=3", "streams=1"])
def test_what_is_split_stays_so(tmp_path: Path, other: str) -> None:
    feed = FeedId("i", "feed", 1)
    driver = open_sink(f"binlog://{tmp_path}?streams=3&split=key", {}).driver()
    driver.recover(feed, 1, SLOTS, TABLES, START)
    changed = open_sink(f"binlog://{tmp_path}?{other}", {})
    for refused in (
        lambda: changed.driver().verify(TABLES, mariadb=True),
        lambda: changed.driver().admit(feed),
        lambda: changed.driver().recover(feed, 2, SLOTS, TABLES, START),
        lambda: changed.changer(feed, 1 << 20).take_over(),
    ):
        with pytest.raises(BinlogStreamsFixed, match="3 streams, by key"):
            refused()
    driver.forget(feed, SLOTS)
    changed.driver().verify(TABLES, mariadb=True)


def test_whoever_was_taken_over_from_says_nothing_of_the_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, claimed = FeedId("i", "feed", 1), StreamLedger.claim
    driver = open_sink(f"binlog://{tmp_path}?streams=2", {}).driver()
    folders = StreamsFolder(tmp_path, 2, Split.TABLE).folders

    def claim(self: StreamLedger, epoch: int, **options: Any) -> None:
        claimed(self, epoch, **options)
        if self.root == folders[-1]:
            for folder in folders:
                claimed(StreamLedger(folder, feed, "binlog"), epoch + 1)

    monkeypatch.setattr(StreamLedger, "claim", claim)
    with pytest.raises(FencedEpoch):
        driver.recover(feed, 1, SLOTS, TABLES, START)
    assert not list(tmp_path.glob("**/streams"))


def test_a_folder_of_one_stream_stays_one(tmp_path: Path) -> None:
    StreamLedger(tmp_path, FeedId("i", "feed", 1), "binlog").claim(1)
    with pytest.raises(BinlogStreamsFixed, match="1 streams"):
        open_sink(f"binlog://{tmp_path}?streams=2", {}).driver().verify(TABLES, mariadb=True)


@pytest.mark.parametrize(
    ("split", "sql"),
    [
        ("key", "ALTER TABLE a DROP PRIMARY KEY"),
        ("key", "ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (v)"),
        ("key", "ALTER TABLE a CHANGE id number INT"),
        ("key", "ALTER TABLE a MODIFY id VARCHAR(20), RENAME TO c"),
        ("table", "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE a"),
    ],
)
def test_rows_that_would_move_are_refused(tmp_path: Path, split: str, sql: str) -> None:
    sink = open_sink(f"binlog://{tmp_path}?streams=8&split={split}", {})
    changer = sink.changer(FeedId("i", "feed", 1), 1 << 20)
    changer.take_over()
    with pytest.raises(BinlogRowsMove) as raised:
        changer.execute(_change(sql))
    assert raised.value.position == "ts 9"
    assert changer.take_over() == {}
    changer.skip(_change(sql))
    assert changer.take_over() == {9: Recorded.SKIPPED}


@pytest.mark.parametrize(
    ("split", "sql"),
    [
        ("key", "ALTER TABLE a MODIFY id BIGINT UNSIGNED"),
        ("key", "ALTER TABLE a ADD w INT FIRST, RENAME TO c"),
        ("key", "RENAME TABLE a TO t, p TO a, t TO p"),
        ("key", "CREATE OR REPLACE TABLE a (v INT PRIMARY KEY)"),
        ("database", "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE a"),
    ],
)
def test_other_changes_go_on(tmp_path: Path, split: str, sql: str) -> None:
    check_rows_stay(_change(sql), read_delivered(sql, _SESSION), StreamAssignment(8, Split(split)))


def _change(sql: str) -> SchemaChange:
    before = Catalog()
    for made in (
        "CREATE DATABASE shop",
        "CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL)",
        "CREATE TABLE p (id INT PRIMARY KEY, v INT NOT NULL) PARTITION BY RANGE (id)"
        " (PARTITION p0 VALUES LESS THAN (10))",
    ):
        before = apply(before, read_ddl(made, _SESSION))
    after = apply(before, read_ddl(sql, _SESSION))
    tables = tuple(("shop", name) for name in ("a", "p", "c"))
    return SchemaChange(
        9, sql, "alter table", tables, ("shop",), tables, _SESSION, StatusVariables(), 0,
        before, after,
    )  # fmt: skip
