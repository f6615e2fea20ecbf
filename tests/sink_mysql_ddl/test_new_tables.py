"""Tables that a target does not have, made from the upstream's definitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pymysql
import pytest

from cdc.base.errors import TidegateError
from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.coord.messages import UpstreamInfo
from cdc.schema.apply import apply
from cdc.schema.ddl import read_ddl
from cdc.schema.definition import TableDefinition
from cdc.schema.snapshot import Schema, catalog
from cdc.source.settings import SourceSettings
from cdc.source.snapshot import take_snapshot
from sink.mysql.connection import SinkSession
from sink.mysql.ddl import late_keys, new_tables
from sink.mysql.ddl.errors import DDLNotTranslatable
from sink.mysql.ddl.execution import Execution
from sink.mysql.sink import MysqlSink
from sink.open import open_sink
from tests.ddl_diff.compare import Server, Values
from tests.seeds import drawn
from tests.servers import Database
from tests.sink_mysql_ddl.constraints import constraints
from tests.sink_mysql_ddl.equivalent import agreed_defaults, equivalent

pytestmark = pytest.mark.real

FEED = FeedId("tests", "made", 1)
TS = 1000
PAIRS = [
    ("mariadb-11.4", "mariadb-11.8"),
    ("mysql-8.0", "mysql-9.7"),
    ("mariadb-11.4", "mysql-8.0"),
    ("mysql-8.0", "mariadb-11.4"),
]
# A child comes before its parent by name, and refers to itself as well.
TABLES = (
    "CREATE TABLE a_child (id bigint unsigned NOT NULL AUTO_INCREMENT, p int, self bigint unsigned,"
    " PRIMARY KEY (id), CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (a) ON DELETE CASCADE,"
    " CONSTRAINT me FOREIGN KEY (self) REFERENCES a_child (id)) AUTO_INCREMENT=77",
    "CREATE TABLE parent (a int PRIMARY KEY, b int UNIQUE, c varchar(20) NOT NULL DEFAULT 'it''s',"
    " KEY k (c(10), b))",
    "CREATE TABLE times (id int PRIMARY KEY, d datetime(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE"
    " CURRENT_TIMESTAMP(6), f timestamp NULL, g timestamp(2) NOT NULL DEFAULT"
    " '2020-01-01 00:00:00', z date NOT NULL DEFAULT '0000-00-00', y year)",
    "CREATE TABLE texts (id int PRIMARY KEY, a varchar(30) CHARACTER SET latin1, b text COLLATE"
    " utf8mb4_bin, e enum('a','b,c','d''e') NOT NULL DEFAULT 'a', s set('x','y')) DEFAULT"
    " CHARSET=latin1 COMMENT='it''s; (a) \\\\ comment'",
    "CREATE TABLE numbers (id int PRIMARY KEY, a decimal(65,30), b bit(13), c tinyint unsigned,"
    " d double, g int AS (c + 1) STORED, KEY (g), CONSTRAINT ck CHECK (c > 0))",
    "CREATE TABLE parts (a int NOT NULL, b date NOT NULL, PRIMARY KEY (a, b)) PARTITION BY RANGE"
    " (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "CREATE TABLE documents (id int PRIMARY KEY, j json, v mediumblob)",
    "CREATE TABLE keys_ (id int PRIMARY KEY, a varchar(50), b int NOT NULL, c text,"
    " UNIQUE KEY u (b), KEY a (a), KEY `w``eird` (a(5) DESC, b),"
    " KEY c (c(20)) COMMENT 'it''s, (x)', FULLTEXT KEY t (c))",
    "CREATE TABLE counted (id int PRIMARY KEY, n int NOT NULL AUTO_INCREMENT, s int, KEY n (n),"
    " KEY s (s))",
    "CREATE TABLE `od``d` (`select` int, `a b` int, PRIMARY KEY (`a b`))",
)
NAMES = (
    "a_child",
    "parent",
    "times",
    "texts",
    "numbers",
    "parts",
    "documents",
    "keys_",
    "counted",
    "od`d",
)


class Site:
    """A source with tables, and a target without them."""

    def __init__(self, source: Database, target: Database, schema: str, config: Any = None) -> None:
        self.source, self.target, self.schema = source, target, schema
        source.execute(
            f"CREATE DATABASE {schema} CHARACTER SET latin1 COLLATE latin1_bin",
            f"USE {schema}",
            "SET time_zone = '+05:00', sql_mode = '', foreign_key_checks = 0",
            *TABLES,
        )
        self.sink = MysqlSink(target.uri() + "/", config or {})
        info = UpstreamInfo(
            name="u", uri=source.uri(), server_kind=source.kind, server_version=source.version_text
        )
        snapshot = take_snapshot(info, SourceSettings())[1]
        # The server has databases of other tests, too.
        ours = (f"{schema}.", "tidegate.")
        tables = {n: t for n, t in snapshot["tables"].items() if n.startswith(ours[0])}
        self.snapshot = {**snapshot, "tables": tables, "others": [], "triggers": []}
        self.definitions = self.of(Schema(self.snapshot))
        self.session = Schema(self.snapshot).session

    @staticmethod
    def of(schema: Schema) -> list[TableDefinition]:
        """All definitions of a schema."""
        return [schema.definition(key) for key in sorted(schema)]

    def make(self, definitions: list[TableDefinition] | None = None, epoch: int = 1) -> None:
        """Make the tables in an epoch, as the owner of a changefeed does."""
        self.sink.changer(FEED, epoch).take_over()
        made = self.definitions if definitions is None else definitions
        self.sink.new_tables().make(FEED, epoch, made, self.session, TS)

    def make_large(self, epoch: int = 1) -> None:
        """As ``make``, but as if all had many rows to come."""
        self.sink.changer(FEED, epoch).take_over()
        large = {d.table.full_name for d in self.definitions}
        new = self.sink.new_tables()
        new.make(FEED, epoch, self.definitions, self.session, TS, large)

    def complete(self, epoch: int) -> None:
        """What happens behind the rows, in an epoch of its own."""
        self.sink.changer(FEED, epoch).take_over()
        self.sink.new_tables().complete(FEED, epoch, TS)

    def keys(self, name: str) -> set[str]:
        """Indexes that a table has at the target."""
        shown = self.target.execute(
            "SELECT index_name FROM information_schema.statistics"
            f" WHERE table_schema = '{self.schema}' AND table_name = '{name}'"
        )
        return {str(row[0]) for row in shown}

    def seen(self, db: Database, schema: str, name: str) -> Values:
        """What information_schema says of a table."""
        with db.connect() as connection, connection.cursor() as cursor:
            server = Server(cursor, mariadb=db.kind == "mariadb", version=db.version)
            found = server.table(schema, name)
            assert found
            return {**found, **constraints(cursor, db.kind, schema, name)}

    def equal(self, name: str, target_schema: str = "") -> None:
        """Both sides have the same table, as far as their servers can."""
        one = self.seen(self.source, self.schema, name)
        other = self.seen(self.target, target_schema or self.schema, name)
        one["foreign keys"] = [_moved(k, self.schema, target_schema) for k in one["foreign keys"]]
        assert other["columns"]
        if self.source.kind != self.target.kind:
            agreed_defaults(one, other)
            checks = [{k: side[k] for k in ("foreign keys", "checks")} for side in (one, other)]
            assert checks[0] == checks[1]
            one, other = equivalent(one), equivalent(other)
        assert one == other


def _moved(key: list[Any], schema: str, target: str) -> list[Any]:
    return [target if target and value == schema else value for value in key]


@pytest.fixture
def site(request: pytest.FixtureRequest, database: Any, fresh_name: str) -> Iterator[Site]:
    source, target = database(request.param[0]), database(request.param[1], gtid=False)
    with ExitStack() as stack:
        for db in (source, target):
            for name in (fresh_name, f"{fresh_name}_at"):
                stack.callback(db.execute, f"DROP DATABASE IF EXISTS {name}")
        stack.callback(target.execute, "DROP DATABASE IF EXISTS tidegate")
        yield Site(source, target, fresh_name)


def _columns(db: Database, schema: str, name: str) -> tuple[list[str], list[str]]:
    """All columns of a table in their order, and those of its primary key in the key's."""
    where = f"WHERE table_schema = '{schema}' AND table_name = '{name}'"
    order = "ORDER BY ordinal_position"
    every = db.execute(f"SELECT column_name FROM information_schema.columns {where} {order}")
    primary = db.execute(
        f"SELECT column_name FROM information_schema.key_column_usage {where}"
        f" AND constraint_name = 'PRIMARY' {order}"
    )
    return [str(row[0]) for row in every], [str(row[0]) for row in primary]


@pytest.mark.parametrize("site", PAIRS[2:], indirect=True)
def test_columns_from_names_are_made_and_are_part_of_the_key(site: Site) -> None:
    target, more = f"{site.schema}_at", ["c_table", "c_schema"]
    rule = {
        "matcher": [f"{site.schema}.*"],
        "target-schema": target,
        "extract-table": {"table-regexp": "(.*)", "target-column": more[0]},
        "extract-schema": {"schema-regexp": "(.*)", "target-column": more[1]},
    }
    site.sink = MysqlSink(f"{site.target.uri()}/", {"dispatchers": [rule]})
    site.sink.new_tables().check(site.definitions, site.session)
    site.make()
    for name in NAMES:
        every, primary = _columns(site.source, site.schema, name)
        wanted = ([*every, *more], [*primary, *more])
        assert _columns(site.target, target, name) == wanted, name
        one, other = site.seen(site.source, site.schema, name), site.seen(site.target, target, name)
        assert (len(one["checks"]), len(one["foreign keys"])) == (
            len(other["checks"]),
            len(other["foreign keys"]),
        )
    rule["extract-table"] = {"table-regexp": "(.*)", "target-column": "Self"}
    site.sink = MysqlSink(f"{site.target.uri()}/", {"dispatchers": [rule]})
    with pytest.raises(DDLNotTranslatable, match="column Self") as refused:
        site.sink.new_tables().check(site.definitions, site.session)
    assert refused.value.object == f"{site.schema}.a_child"


@pytest.mark.parametrize("site", PAIRS, indirect=True)
def test_the_target_has_what_the_upstream_has(site: Site) -> None:
    new = site.sink.new_tables()
    assert {d.table.name for d in new.missing(site.definitions)} == set(NAMES)
    new.check(site.definitions, site.session)
    assert len(new.missing(site.definitions)) == len(NAMES)
    site.make()
    assert new.missing(site.definitions) == []
    for name in NAMES:
        site.equal(name)
    ask = "SELECT default_character_set_name, default_collation_name FROM information_schema"
    where = f" WHERE schema_name = '{site.schema}'"
    assert site.target.execute(f"{ask}.schemata{where}") == [("latin1", "latin1_bin")]


@pytest.mark.parametrize("site", PAIRS[:1], indirect=True)
def test_what_is_there_is_left_alone_and_the_rest_is_made(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.target.execute(
        f"CREATE DATABASE {site.schema}", f"CREATE TABLE {site.schema}.parent (a int PRIMARY KEY)"
    )
    right, made = new_tables.Carrying.make, []

    def dying(self: Any) -> None:
        right(self)
        made.append(self)
        if len(made) == 2:
            raise RuntimeError("the process dies")

    monkeypatch.setattr(new_tables.Carrying, "make", dying)
    with pytest.raises(RuntimeError):
        site.make()
    left = site.sink.new_tables().missing(site.definitions)
    assert len(left) == len(NAMES) - 3
    monkeypatch.setattr(new_tables.Carrying, "make", right)
    site.make(epoch=2)
    assert len(site.seen(site.target, site.schema, "parent")["columns"]) == 1
    for name in set(NAMES) - {"parent"}:
        site.equal(name)


@pytest.mark.parametrize("site", PAIRS[2:], indirect=True)
def test_a_table_whose_maker_has_died_is_made_complete(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between families a table is created, and then altered to what words alone do not say."""
    right = new_tables.Carrying._settle

    def dying(self: Any) -> None:
        if self._change.after.table(site.schema, "texts") is not None:
            raise RuntimeError("the process dies")
        right(self)

    monkeypatch.setattr(new_tables.Carrying, "_settle", dying)
    with pytest.raises(RuntimeError):
        site.make()
    monkeypatch.undo()
    # As if the words had meant another thing here; and somebody has changed one that is complete.
    site.target.execute(
        f"ALTER TABLE {site.schema}.texts MODIFY b text COLLATE utf8mb4_general_ci",
        f"ALTER TABLE {site.schema}.parent ADD mine int",
    )
    site.make(epoch=2)
    for name in set(NAMES) - {"parent"}:
        site.equal(name)
    site.target.execute(f"ALTER TABLE {site.schema}.texts ADD mine int")
    site.make(epoch=3)
    for name in ("parent", "texts"):
        assert "mine" in str(site.seen(site.target, site.schema, name)["columns"])


@pytest.mark.parametrize("site", PAIRS[:1], indirect=True)
def test_a_table_whose_rows_were_delivered_is_not_made_again(site: Site) -> None:
    site.make()
    tables = [d.table for d in site.definitions]
    site.sink.driver().recover(FEED, 1, 1, tables, Position(TS - 1))
    delivered = "UPDATE tidegate.ledger SET `row` = 0, ts ="
    site.target.execute(f"{delivered} {TS - 1}", f"DROP TABLE {site.schema}.times")
    site.make(epoch=2)
    site.equal("times")
    # A change has dropped it, behind its rows.
    site.target.execute(f"{delivered} {TS}", f"DROP TABLE {site.schema}.times")
    site.make(epoch=3)
    left = site.sink.new_tables().missing(site.definitions)
    assert [d.table.name for d in left] == ["times"]


@pytest.mark.parametrize("site", PAIRS[:1], indirect=True)
def test_an_older_epoch_makes_nothing(site: Site) -> None:
    site.sink.changer(FEED, 5).take_over()
    with pytest.raises(TidegateError) as fenced:
        site.sink.new_tables().make(FEED, 4, site.definitions, site.session, TS)
    assert fenced.value.code == "TG:ErrFencedEpoch"
    assert len(site.sink.new_tables().missing(site.definitions)) == len(NAMES)


@pytest.mark.parametrize("site", PAIRS[2:], indirect=True)
def test_tables_have_the_names_that_rows_go_to(site: Site) -> None:
    target = f"{site.schema}_at"
    rule = {"matcher": [f"{site.schema}.*"], "target-schema": target}
    site.sink = MysqlSink(site.target.uri() + "/", {"dispatchers": [rule]})
    site.make()
    for name in NAMES:
        site.equal(name, target)


@pytest.mark.parametrize("site", [PAIRS[0], PAIRS[3]], indirect=True)
def test_a_table_that_has_changed_since_is_made_from_its_value(site: Site) -> None:
    schemas = catalog(site.snapshot)
    session = Schema(site.snapshot).session
    for sql in (
        "ALTER TABLE times ADD more varchar(9) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'x' AFTER id",
        "ALTER TABLE a_child ADD more int",
    ):
        site.source.execute("SET sql_mode = ''", sql, database=site.schema)
        qualified = sql.replace("TABLE ", f"TABLE {site.schema}.")
        schemas = apply(schemas, read_ddl(qualified, session))
    changed = [schemas.definition(site.schema, name) for name in ("times", "a_child")]
    assert [d.text for d in changed if d] == ["", ""]
    site.make([d for d in changed[:1] if d])
    site.equal("times")
    # Its value does not say what its foreign keys are.
    with pytest.raises(TidegateError) as refused:
        site.make([d for d in changed if d], epoch=2)
    assert refused.value.code == "TG:ErrDDLNotTranslatable"
    assert refused.value.object == f"{site.schema}.a_child"


def test_without_a_ledger_nothing_is_made(database: Any) -> None:
    target = database("mariadb-11.4")
    with pytest.raises(TidegateError) as refused:
        MysqlSink(target.uri() + "/?exactly-once=false", {}).new_tables()
    assert refused.value.code == "TG:ErrSinkOptionNotSupported"


@pytest.mark.parametrize(
    "uri",
    [
        "kafka://127.0.0.1:9/topic?protocol=canal-json",
        "file:///tmp/unused?protocol=canal-json",
        "blackhole://",
        "binlog:///tmp/unused",
    ],
)
def test_a_sink_that_is_no_database_makes_none(uri: str) -> None:
    with pytest.raises(TidegateError) as refused:
        open_sink(uri, {}).new_tables()
    assert refused.value.code == "TG:ErrSinkOptionNotSupported"
    assert refused.value.object == "snapshot.create-tables"


@pytest.mark.parametrize("site", drawn(PAIRS), indirect=True)
def test_indexes_come_behind_the_rows(site: Site) -> None:
    site.make_large()
    # Rows are told apart by what is left, foreign keys and counters stay what they are.
    assert site.keys("keys_") == {"PRIMARY", "u", "t"}
    assert site.keys("counted") == {"PRIMARY", "n"}
    assert site.keys("a_child") == {"PRIMARY", "fk", "me"}
    site.target.execute(
        f"INSERT INTO {site.schema}.keys_ VALUES (1, 'a', 2, 'c'), (2, 'a', 3, 'c')"
    )
    site.complete(epoch=2)
    for name in NAMES:
        site.equal(name)
    site.target.execute(f"ALTER TABLE {site.schema}.keys_ DROP KEY a")
    # Nothing is due any more.
    site.complete(epoch=3)
    assert site.keys("keys_") == {"PRIMARY", "u", "t", "c", "w`eird"}
    session = SinkSession(site.sink._settings)
    with closing(session), pytest.raises(TidegateError) as fenced:
        late_keys.leave_out(session, FEED, 2, (site.schema, "keys_"))
    assert fenced.value.code == "TG:ErrFencedEpoch"


@pytest.mark.parametrize("site", PAIRS[:2], indirect=True)
def test_a_user_that_may_not_alter_tables_makes_them_whole(site: Site) -> None:
    user = f"u{site.schema[-20:]}"
    site.target.execute(
        "CREATE DATABASE IF NOT EXISTS tidegate",
        f"CREATE USER {user}@'%'",
        f"GRANT ALL ON tidegate.* TO {user}@'%'",
        f"GRANT CREATE, REFERENCES, SELECT, INSERT, UPDATE, DELETE ON *.* TO {user}@'%'",
    )
    try:
        site.sink = MysqlSink(site.target.uri().replace("root", user) + "/", {})
        site.make_large()
        site.complete(epoch=2)
    finally:
        site.target.execute(f"DROP USER {user}@'%'")
    for name in NAMES:
        site.equal(name)


@pytest.mark.parametrize("site", PAIRS[:2], indirect=True)
@pytest.mark.parametrize("drops", [0, 1, 4])
def test_whoever_dies_while_indexes_go_has_not_lost_them(
    site: Site, monkeypatch: pytest.MonkeyPatch, drops: int
) -> None:
    run, left = SinkSession.run, iter(range(drops))

    def dying(self: SinkSession, sql: str, *args: object) -> object:
        if "DROP KEY" in sql and next(left, None) is None:
            raise pymysql.err.OperationalError(2013, "lost")
        return run(self, sql, *args)

    with monkeypatch.context() as patch:
        patch.setattr(SinkSession, "run", dying)
        with pytest.raises(TidegateError):
            site.make_large()
    site.make_large(epoch=2)
    assert site.keys("keys_") == {"PRIMARY", "u", "t"}
    site.complete(epoch=3)
    for name in NAMES:
        site.equal(name)


@pytest.mark.parametrize("site", PAIRS[:2], indirect=True)
def test_whoever_dies_while_indexes_come_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.make_large()
    run, left = Execution.run, iter(range(1))

    def dying(self: Execution, sql: str, *args: Any) -> None:
        if next(left, None) is None:
            raise pymysql.err.OperationalError(2013, "lost")
        run(self, sql, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Execution, "run", dying)
        with pytest.raises(TidegateError):
            site.complete(epoch=2)
    site.target.execute(f"DROP TABLE {site.schema}.counted")
    site.complete(epoch=3)
    for name in set(NAMES) - {"counted"}:
        site.equal(name)
