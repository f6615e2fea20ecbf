"""Schema changes on real targets: sessions, hands of operators, refusals, routes, families."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from cdc.base.ids import FeedId
from cdc.base.position import START, Position, Stand
from sink.mysql.ddl.changer import MysqlChanger
from sink.mysql.ddl.errors import DDLNotTranslatable, DDLTargetDiffers, DDLTargetRejected
from sink.mysql.ddl.execution import Execution
from sink.mysql.ddl.server import ask
from sink.mysql.deliverer import TARGET, MysqlDeliverer
from sink.mysql.driver import MysqlDriver
from sink.mysql.errors import MysqlAccessDenied
from sink.mysql.settings import MysqlSettings
from sink.mysql.sink import MysqlSink
from sink.schema_change import Recorded, proven
from tests.sink_mysql_ddl.upstream import Upstream

FEED = FeedId("tests", "feed", 1)
PAIRS = [("mariadb-11.4", "mariadb-11.4"), ("mysql-8.0", "mysql-9.7")]
ACROSS = [("mariadb-11.4", "mysql-8.0"), ("mysql-8.0", "mariadb-11.4")]


class Site:
    """An upstream, a target and a changer between them, in a schema of the test's own."""

    def __init__(self, source: Any, target: Any, schema: str) -> None:
        self.source, self.target, self.schema = source, target, schema
        source.execute(f"create database {schema} character set latin1")
        self.upstream = Upstream(source)
        self.upstream.execute(f"use {schema}")
        target.execute("drop database if exists tidegate")
        target.execute(f"create database {schema} character set utf8mb4")
        self.changer = MysqlSink(target.uri() + "/", {}).changer(FEED, 1)
        self.changer.take_over()

    def follow(self, *statements: str) -> None:
        """Carry each out."""
        for change in self.upstream.run(*statements):
            self.changer.execute(change)

    def at_target(self, *statements: str) -> Any:
        """What an operator does there."""
        return self.target.execute(*statements, database=self.schema)

    def shown(self, db: Any, name: str) -> str:
        """SHOW CREATE TABLE."""
        return str(db.execute(f"show create table {self.schema}.{name}")[0][1])

    def equal(self, *names: str) -> None:
        """Both sides show the same."""
        for name in names:
            assert self.shown(self.target, name) == self.shown(self.source, name)

    def ledger(self) -> list[str]:
        """States by ts."""
        found = self.target.execute("select state from tidegate.ddl where ts > 0 order by ts")
        return [row[0] for row in found]


@pytest.fixture
def site(request: pytest.FixtureRequest, database: Any, fresh_name: str) -> Iterator[Site]:
    source, target = database(request.param[0]), database(request.param[1], gtid=False)
    with ExitStack() as stack:
        for db in (source, target):
            stack.callback(db.execute, f"drop database if exists {fresh_name}")
        stack.callback(target.execute, "drop database if exists tidegate")
        made = Site(source, target, fresh_name)
        stack.callback(made.upstream.close)
        yield made


@pytest.mark.parametrize("site", [PAIRS[0], ("mysql-8.0", "mysql-8.0")], indirect=True)
def test_a_statement_means_what_it_meant(site: Site) -> None:
    """sql_mode, character sets, time and checks are the upstream session's."""
    site.follow(
        # The target's database has another character set.
        "create table a (id int primary key, v varchar(10), w varchar(10) character set utf8mb4)",
        "set sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
        """create table "q" ("x" varchar(20) default '\\n', "y" int comment 'a\\b')""",
        "set sql_mode = ''",
        "create table z (d datetime default '0000-00-00 00:00:00', e enum('a','b'))",
        "set foreign_key_checks = 0",
        "create table c (id int, constraint f foreign key (id) references later (id))",
        "set names latin1",
        "create table l (`n\u00e4me` varchar(9) default '\u00fc\u00df' comment '\u00e9')",
        "set names utf8mb4, collation_connection = utf8mb4_bin",
        "create table g (a varchar(9), b int as (a = 'X') stored)",
        "set time_zone = '+05:00', timestamp = 1700000000",
        "create table t (id int, ts timestamp null default '2020-01-01 00:00:00')",
        "set sql_mode = default, foreign_key_checks = default, time_zone = default",
    )
    site.equal("a", "q", "z", "c", "l", "g", "t")
    assert set(site.ledger()) == {"done"}


@pytest.mark.parametrize("site", PAIRS, indirect=True)
def test_what_an_operator_has_done_by_hand_is_recorded(site: Site) -> None:
    site.follow("create table a (id int primary key)", "create table b (id int primary key)")
    site.at_target(
        "alter table a add c int",
        "create table n (x int) character set latin1",
        "rename table b to bb",
        "alter table a add key own (id)",
    )
    site.follow(
        "alter table a add c int", "create table n (x int)", "rename table b to bb", "drop table n"
    )
    # A key that only the target has is left alone.
    site.follow("alter table a add d int", "alter table a drop column c")
    assert "own" in site.shown(site.target, "a")
    assert set(site.ledger()) == {"done"}


@pytest.mark.parametrize("site", PAIRS, indirect=True)
def test_a_target_that_fits_neither_side_is_not_touched(site: Site) -> None:
    site.follow("create table a (id int primary key, v varchar(10))")
    site.at_target("alter table a modify v varchar(99)")
    (change,) = site.upstream.run("alter table a modify v varchar(20)")
    with pytest.raises(DDLTargetDiffers) as e:
        site.changer.execute(change)
    assert "99" in str(e.value)
    assert "20" in str(e.value)
    assert e.value.object == f"{site.schema}.a"
    assert e.value.position == f"ts {change.ts}"
    assert "99" in site.shown(site.target, "a")
    # Mended, it goes on; or it is left out.
    site.at_target("alter table a modify v varchar(10)")
    site.changer.execute(change)
    site.equal("a")
    (change,) = site.upstream.run("alter table a add x int")
    site.changer.skip(change)
    site.changer.execute(change)
    assert "`x`" not in site.shown(site.target, "a")
    assert site.changer.take_over()[change.ts] is Recorded.SKIPPED
    site.changer.forget_below(change.ts - 1)
    assert site.changer.take_over() == {change.ts: Recorded.SKIPPED}


@pytest.mark.parametrize("site", PAIRS[:1], indirect=True)
def test_lists_are_finished_not_begun_anew(site: Site) -> None:
    names = "abcd"
    site.follow(*(f"create table {n} (id int primary key, v{n} int)" for n in names))
    site.at_target("drop table b")
    site.follow("drop table a, b")
    site.at_target("rename table c to t")
    site.follow("rename table c to t, d to c, t to d")
    site.equal("c", "d")
    assert "`vd`" in site.shown(site.target, "c")


@pytest.mark.parametrize("site", PAIRS, indirect=True)
def test_a_missing_right_names_the_grant(site: Site) -> None:
    user = f"u_{site.schema}"[:30]
    site.target.execute(
        f"create user {user}@'127.0.0.1' identified by 'secret-word'",
        f"grant select on *.* to {user}@'127.0.0.1'",
        f"grant all on tidegate.* to {user}@'127.0.0.1'",
    )
    try:
        uri = site.target.uri(user, "secret-word")
        changer = MysqlChanger(MysqlSettings.parse(f"{uri}/"), FEED, 2)
        changer.take_over()
        (change,) = site.upstream.run("create table a (id int primary key)")
        with pytest.raises(MysqlAccessDenied) as e:
            changer.execute(change)
        assert e.value.hint.startswith("GRANT ")
        assert "secret-word" not in str(e.value)
        # Nothing has happened, so with the right it goes on.
        site.target.execute(f"grant all on {site.schema}.* to {user}@'127.0.0.1'")
        changer.execute(change)
        assert "`id`" in site.shown(site.target, "a")
    finally:
        site.target.execute(f"drop user {user}@'127.0.0.1'")


@pytest.mark.parametrize("site", PAIRS, indirect=True)
def test_a_target_that_cannot_follow_says_what_and_where(site: Site) -> None:
    site.follow("create table a (id int primary key, v int)")
    site.at_target("insert into a values (1, 1), (2, 1)")
    (change,) = site.upstream.run("alter table a add unique (v)")
    with pytest.raises(DDLTargetRejected) as e:
        site.changer.execute(change)
    assert "add unique (v)" in str(e.value)
    assert e.value.position == f"ts {change.ts}"
    assert e.value.hint
    site.at_target("delete from a where id = 2")
    site.changer.execute(change)
    site.equal("a")


@pytest.mark.parametrize("site", PAIRS, indirect=True)
def test_routes(site: Site) -> None:
    other = f"{site.schema}_r"
    site.target.execute(f"drop database if exists {other}")

    def route(schema: str, name: str) -> tuple[str, str]:
        return (other if schema == site.schema else schema), f"{name}_r" if name else ""

    changer = MysqlChanger(MysqlSettings.parse(f"{site.target.uri()}/"), FEED, 2, route)
    changer.take_over()
    try:
        for change in site.upstream.run(
            f"create database if not exists {site.schema}_n",
            f"drop database {site.schema}_n",
            f"alter database {site.schema} character set utf8mb4",
        ):
            if change.kind != "alter database":
                changer.execute(change)
        site.target.execute(f"create database {other}")
        for change in site.upstream.run(
            "create table p (id int primary key)",
            "create table c (id int, foreign key (id) references p (id))",
            "create table l like p",
            "alter table l rename to m, add v int",
            "rename table m to x, p to m",
            "create index i on x (v)",
            "drop table c",
        ):
            changer.execute(change)
        tables = sorted(row[0] for row in site.target.execute(f"show tables from {other}"))
        assert tables == ["m_r", "x_r"]
        assert not site.target.execute(f"show tables from {site.schema}")
    finally:
        site.target.execute(f"drop database if exists {other}")


@pytest.mark.parametrize("site", ACROSS, indirect=True)
def test_between_families(site: Site) -> None:
    """What both have arrives; what words alone do not say is mended; the rest is refused."""
    site.follow(
        "create table a (id int primary key, v varchar(10) character set utf8mb4, j json)",
        "alter table a add t text, add key k (v), algorithm=copy",
        "alter table a convert to character set utf8mb4",
        "alter table a modify t varchar(30) not null default 'x', rename column v to w",
        "create table b like a",
        "create table f (id int primary key, p int, foreign key (p) references a (id))",
        "alter table b add constraint pos check (id > 0)",
        "create table h (id int primary key) partition by key (id) partitions 3",
        "alter table h coalesce partition 1",
        "truncate table h",
        "rename table h to t, b to h, t to b",
    )
    for name in ("a", "b", "f", "h"):
        facts = "column_name, is_nullable, character_maximum_length, character_set_name"
        where = f"table_schema = '{site.schema}' and table_name = '{name}' and column_name <> 'j'"
        text = f"select {facts} from information_schema.columns where {where} order by 1"
        columns = [db.execute(text) for db in (site.source, site.target)]
        assert columns[0] == columns[1]
    assert "foreign key" in site.shown(site.target, "f").lower()
    refused = {
        "mariadb": "create table v (id int) with system versioning",
        "mysql": "create table v (id int, key k ((id + 1)))",
    }[site.source.kind]
    (change,) = site.upstream.run(refused)
    with pytest.raises(DDLNotTranslatable):
        site.changer.execute(change)
    assert site.ledger()[-1:] == ["done"]


@pytest.mark.parametrize("site", [*PAIRS, *ACROSS], indirect=True)
def test_like_a_table_that_the_target_does_not_have(site: Site) -> None:
    site.upstream.run(
        "create table m (id bigint unsigned not null auto_increment primary key, v varchar(20)"
        " character set utf8mb4 not null default 'it''s', d decimal(5,2) default 1.5, t text,"
        " ts timestamp(3) not null default current_timestamp(3) on update current_timestamp(3),"
        " e enum('a','b') comment 'x\\\\y', g int as (d + 1) stored, unique key u (v, d),"
        " key (t(9)))"
        " comment 'model'",
        "create table p (id int primary key) partition by range (id)"
        " (partition a values less than (10), partition b values less than maxvalue)",
    )
    site.follow("create table n like m", "create table q like p")
    if site.source.kind == site.target.kind:
        site.equal("n", "q")
    columns = "select table_name, column_name from information_schema.columns"
    where = f"where table_schema = '{site.schema}' and table_name in ('n', 'q')"
    found = [set(db.execute(f"{columns} {where}")) for db in (site.source, site.target)]
    assert found[0] == found[1]


@pytest.mark.parametrize("site", PAIRS[:1], indirect=True)
def test_ties_are_the_targets_foreign_keys(site: Site) -> None:
    site.at_target(
        "create table p (id int primary key)",
        "create table c (id int, foreign key (id) references p (id))",
    )
    tied = (f"{site.schema}.c", f"{site.schema}.p")
    assert tied in set(site.changer.ties())
    site.follow("create table q (id int, key (id)) engine=innodb")
    site.follow("create table d (id int, foreign key (id) references q (id))")
    found = set(site.changer.ties())
    assert {tied, (f"{site.schema}.d", f"{site.schema}.q")} <= found


@pytest.mark.parametrize("site", [PAIRS[0]], indirect=True)
def test_rows_behind_a_change_prove_that_it_ran(site: Site) -> None:
    """Its record was forgotten, and the checkpoint that allowed it is lost."""
    site.follow("create table a (id int primary key)")
    (change,) = site.upstream.run("truncate a")
    site.at_target("insert into a values (7)")
    settings = MysqlSettings.parse(f"{site.target.uri()}/?worker-count=1")
    driver, at = MysqlDriver(settings), (TARGET, 0)

    def deliver(epoch: int, position: Position) -> None:
        driver.recover(FEED, epoch, 1, (), START)
        rows = MysqlDeliverer(settings, FEED, epoch, binlog=False)
        rows.begin()
        rows.commit({at: position})
        rows.close()

    held = {f"{site.schema}.a": Position(change.ts - 1)}
    deliver(2, Stand(change.ts + 5, held=held))
    assert not proven(change, driver.delivered(FEED).values())
    deliver(3, Position(change.ts + 10))
    site.changer.execute(change)
    assert site.at_target("select id from a") == [(7,)]
    assert site.ledger() == ["done", "done"]


@pytest.mark.parametrize("site", [PAIRS[0]], indirect=True)
def test_a_time_zone_is_a_value_and_never_a_part_of_a_statement(site: Site) -> None:
    """It is the upstream's server that says it, and its text may be anything."""
    (change,) = site.upstream.run("create table t (a int)")
    zone = "\\', unique_checks = 0 -- "
    hostile = replace(change, status=replace(change.status, time_zone=zone))
    execution = Execution(MysqlSettings.parse(site.target.uri() + "/"))
    try:
        server = ask(execution._session)
        with pytest.raises(pymysql.err.OperationalError) as caught:
            execution.prepare(hostile, server, "")
    finally:
        execution.close()
    assert caught.value.args == (1298, f"Unknown or incorrect time zone: '{zone}'")


@pytest.mark.parametrize("site", PAIRS[:1], indirect=True)
def test_a_column_that_only_the_target_has_stays_where_it_is(site: Site) -> None:
    site.follow("create table t (id int primary key, a int)")
    site.at_target("alter table t add c_table varchar(64)")
    site.follow(
        "alter table t add b int", "alter table t add c int after a", "alter table t drop a"
    )
    columns = [row[0] for row in site.target.execute(f"show columns in {site.schema}.t")]
    assert columns == ["id", "c", "c_table", "b"]
    assert set(site.ledger()) == {"done"}
