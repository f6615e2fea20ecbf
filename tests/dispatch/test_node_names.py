"""What leaves Tidegate of tables of several nodes: messages, statements, judgements, folders."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cdc.base.nodes import qualified
from cdc.binlog.query import StatusVariables
from cdc.coord.feed_config import FeedConfig
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from filter.decision import DdlFilter, Outcome
from owner.ddl import Ddl, FeedScope, judge
from owner.target_ties import TargetTies
from sink.codec.canal.ddl import ddl_message
from sink.codec.canal.settings import CanalSettings
from sink.codec.debezium.ddl import ddl_message as debezium_message
from sink.codec.debezium.settings import DebeziumSettings
from sink.dispatch.rules import Router
from sink.dispatch.settings import DispatcherSettings
from sink.dispatch.target import TargetRouter
from sink.file.names import folder, table_of
from sink.mysql.ddl.rewrite import rewrite
from sink.schema_change import SchemaChange
from tests.sink_mysql_ddl.test_rewrite import TO_MARIADB

SESSION = Session(mariadb=True, version=(11, 8, 0))
SHOP, OTHER = (qualified(node, "shop") for node in ("n1", "n2"))


def _schema() -> Catalog:
    catalog = Catalog()
    for node in (SHOP, OTHER):
        session = replace(SESSION, node=node[:2], default_schema=node)
        for sql in (
            "CREATE DATABASE shop",
            *(f"CREATE TABLE {t} (id INT PRIMARY KEY, k INT)" for t in ("a", "b")),
        ):
            catalog = apply(catalog, read_ddl(sql, session))
    return catalog


BEFORE = _schema()


def _change(sql: str, database: str = SHOP) -> SchemaChange:
    session = replace(SESSION, node="n1", default_schema=database)
    seen = read_ddl(sql, session)
    return SchemaChange(
        ts=5,
        sql=sql,
        kind=seen.kind,
        tables=seen.tables,
        schemas=seen.schemas,
        replicated=seen.tables,
        session=session,
        status=StatusVariables(),
        time_s=0,
        before=BEFORE,
        after=apply(BEFORE, seen),
    )


STATEMENTS = [
    ("ALTER TABLE a ADD COLUMN v INT", "ALTER TABLE `shop`.`a` ADD COLUMN v INT"),
    ("alter table shop.a add key (k)", "alter table `shop`.`a` add key (k)"),
    ("CREATE TABLE c LIKE shop.a", "CREATE TABLE `shop`.`c` LIKE `shop`.`a`"),
    ("TRUNCATE a", "TRUNCATE TABLE `shop`.`a`"),
    ("CREATE INDEX i ON a (k)", "CREATE INDEX i ON `shop`.`a` (k)"),
]


@pytest.mark.parametrize(("sql", "at_the_target"), STATEMENTS)
def test_a_statement_has_plain_names(sql: str, at_the_target: str) -> None:
    change = _change(sql)
    names = TargetRouter()

    def route(schema: str, table: str) -> tuple[str, str]:
        return names.target(schema, table) if table else (names.target_schema(schema), "")

    found = rewrite(change, TO_MARIADB, route)
    assert [" ".join(s.split()) for s in found.statements] == [at_the_target]
    said = json.loads(ddl_message(change, change.tables, CanalSettings(), 1))
    assert (said["database"], said["sql"]) == ("shop", sql)
    told = debezium_message(change, change.tables, DebeziumSettings(name="x"), 1)
    payload = json.loads(told.value)["payload"]
    assert (payload["databaseName"], payload["ddl"]) == ("shop", sql)
    assert payload["source"]["db"] == "shop"
    for one in (*found.statements, *map(str, said.values()), told.value.decode()):
        assert "n1" not in one


def test_the_context_of_a_statement_has_plain_names() -> None:
    change = _change("ALTER TABLE a ADD v INT")
    settings = CanalSettings(enable_tidb_extension=True)
    said = json.loads(ddl_message(change, change.tables, settings, 1))
    assert said["_tidegate"]["defaultDatabase"] == "shop"


def test_a_database_has_its_plain_name() -> None:
    change = _change("DROP DATABASE shop")
    names = TargetRouter()
    found = rewrite(change, TO_MARIADB, lambda s, t: (names.target_schema(s), ""))
    assert found.statements == ("DROP DATABASE IF EXISTS `shop`",)
    assert json.loads(ddl_message(change, (), CanalSettings(), 1))["database"] == "shop"


def _judged(sql: str, config: dict[str, Any]) -> Any:
    change = _change(sql)
    scope = FeedScope(DdlFilter(FeedConfig.model_validate(config)))
    return judge(Ddl(5, sql, read_ddl(sql, change.session), None, change), scope, 0)


def test_rules_take_tables_by_node() -> None:
    one = {"filter": {"rules": ["n1:shop.*"]}}
    found = _judged("ALTER TABLE a ADD v INT", one)
    assert found.replicated == ((SHOP, "a"),)
    assert found.tables == {"n1:shop .a"}
    assert _judged("ALTER TABLE a ADD v INT", {"filter": {"rules": ["n2:shop.*"]}}) is None
    both = {"filter": {"rules": ["n1:shop.[ac]", "n2:shop.*"]}}
    # The other node has this name already.
    made = _judged("CREATE OR REPLACE TABLE a (id INT PRIMARY KEY)", both)
    assert made.error.code == "TG:ErrTableRouteConflict"
    apart = {"filter": {"rules": ["n1:shop.c", "n2:shop.*"]}}
    assert _judged("CREATE TABLE c (id INT PRIMARY KEY)", apart).error is None


def test_events_are_ignored_by_node() -> None:
    rule = {"matcher": ["n2:shop.*"], "ignore_event": ["alter table"]}
    config = {"filter": {"rules": ["*.*"], "event_filters": [rule]}}
    decide = DdlFilter(FeedConfig.model_validate(config)).decide
    for node, outcome in ((SHOP, Outcome.DELIVER), (OTHER, Outcome.IGNORED)):
        session = replace(SESSION, node=node[:2], default_schema=node)
        assert decide("ALTER TABLE a ADD v INT", session).outcome is outcome
    system = decide("ALTER TABLE mysql.t ADD v INT", replace(SESSION, node="n1"))
    assert system.outcome is Outcome.OUTSIDE


def test_topics_and_partitions_go_by_plain_names() -> None:
    rules = [
        DispatcherSettings.model_validate({"matcher": ["shop.*"], "topic": "{schema}-{table}"})
    ]
    router = Router(rules, "t", {"shop-a": 7})
    tables = [BEFORE.table(schema, "a") for schema in (SHOP, OTHER)]
    routes = [router.route(table) for table in tables if table is not None]
    plain = router.route(replace(tables[0], schema="shop"))  # type: ignore[type-var]
    assert routes == [plain, plain]


def test_ties_of_the_target_are_of_the_tables_of_all_nodes() -> None:
    found = TargetTies().upstream((("shop.a", "shop.b"),), BEFORE, ())
    assert set(found) == {
        (f"{one}.a", f"{other}.b") for one in (SHOP, OTHER) for other in (SHOP, OTHER)
    }


def test_folders_of_files_keep_tables_of_nodes_apart() -> None:
    assert folder(SHOP, "a") == "n1:shop%20/a"
    assert table_of(folder(SHOP, "a")) == f"{SHOP}.a"
