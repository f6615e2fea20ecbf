"""Statements of one of several nodes: the same as anywhere, about this node's databases.

The oracle is the statement read as a single upstream's, over all of the corpus.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc.base.errors import DefiniteError
from cdc.base.nodes import is_qualified, node_of, plain, qualified
from cdc.binlog.query import StatusVariables
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.cut_over import CutOver, alter_of
from cdc.schema.ddl import read_ddl
from cdc.schema.events import session_of_event
from cdc.schema.session import Session
from cdc.schema.statement import DdlStatement
from cdc.schema.system import is_system
from cdc.schema.table import Table
from tests.ddl_diff.split import by_line
from tests.schema.test_one_meaning import CORPUS, SESSIONS

NODE = "n1"
Name = tuple[str, str]


def _there(name: Name) -> Name:
    return qualified(NODE, name[0]), name[1]


def _on_node(session: Session) -> Session:
    return session_of_event(session, qualified(NODE, session.default_schema), StatusVariables())


def _plainly(session: Session) -> Session:
    return session_of_event(session, session.default_schema, StatusVariables())


def _said(statement: DdlStatement) -> list[object]:
    named = [(n.start, n.end, n.role) for n in (*statement.targets, *statement.others)]
    return [statement.kind, statement.body, statement.index, statement.obstacle, named]


def _names(statement: DdlStatement) -> list[Name]:
    tables = [named.table for named in (*statement.targets, *statement.others)]
    return [*tables, *((schema, "") for schema in statement.schemas)]


def _without_node(table: Table | None) -> Table | None:
    if table is None:
        return None
    assert is_qualified(table.schema)
    return replace(table, schema=plain(table.schema))


@pytest.mark.parametrize("kind", SESSIONS)
def test_every_name_of_every_statement_is_of_the_node(kind: str) -> None:
    session, there = _plainly(SESSIONS[kind]), _on_node(SESSIONS[kind])
    followed, explicit = 0, 0
    for path in sorted((*CORPUS.glob("common/*.sql"), *CORPUS.glob(f"{kind}/*.sql"))):
        one, other = Catalog(), Catalog()
        for sql in ("CREATE DATABASE d", "CREATE DATABASE ddl_two", *by_line(path.read_text())):
            try:
                statement = read_ddl(sql, session)
                after = apply(one, statement)
            except DefiniteError as e:
                with pytest.raises(type(e)):
                    apply(other, read_ddl(sql, there))
                continue
            seen = read_ddl(sql, there)
            assert _said(seen) == _said(statement)
            assert _names(seen) == [_there(name) for name in _names(statement)]
            one, other = after, apply(other, seen)
            for name in statement.tables:
                assert _without_node(other.table(*_there(name))) == one.table(*name), sql
            followed += 1
            explicit += any(schema != "d" for schema, _ in _names(statement))
        assert {plain(name) for name in other.databases} == set(one.databases)
        assert set(other) == {_there(name) for name in one}
    assert followed > 800
    assert explicit > 20


def test_the_default_database_says_the_node_even_if_it_is_none() -> None:
    base = Session(mariadb=True)
    there = session_of_event(base, qualified("n2", ""), StatusVariables())
    assert (there.node, there.default_schema) == ("n2", "")
    assert read_ddl("DROP TABLE s.t", there).tables == ((qualified("n2", "s"), "t"),)
    single = session_of_event(base, "s", StatusVariables())
    assert (single.node, single.default_schema) == ("", "s")
    assert read_ddl("DROP TABLE t, x.t", single).tables == (("s", "t"), ("x", "t"))


def test_system_schemas_are_known_by_their_plain_names() -> None:
    assert is_system(qualified("n1", "MYSQL"))
    assert not is_system(qualified("mysql", "shop"))
    there = Session(node="n1", default_schema=qualified("n1", "mysql"))
    assert list(apply(Catalog(), read_ddl("CREATE TABLE t (id INT)", there))) == []


def test_two_nodes_have_tables_of_one_name() -> None:
    catalog = Catalog()
    for node, kind in (("n1", "INT"), ("n2", "BIGINT")):
        session = Session(node=node, default_schema=qualified(node, "shop"))
        for sql in ("CREATE DATABASE shop", f"CREATE TABLE t (id {kind} PRIMARY KEY)"):
            catalog = apply(catalog, read_ddl(sql, session))
    assert [node_of(schema) for schema, _ in catalog] == ["n1", "n2"]
    types = [catalog.table(qualified(n, "shop"), "t") for n in ("n1", "n2")]
    assert [t.columns[0].data_type for t in types if t is not None] == ["int", "bigint"]
    dropped = apply(catalog, read_ddl("DROP DATABASE shop", Session(node="n1")))
    assert [schema for schema, _ in dropped] == [qualified("n2", "shop")]


def test_the_one_alter_of_an_online_change_has_plain_names() -> None:
    session = Session(node="n1", default_schema=qualified("n1", "shop"))
    catalog = Catalog()
    for sql in (
        "CREATE DATABASE shop",
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE _t_new (id INT PRIMARY KEY, v INT)",
    ):
        catalog = apply(catalog, read_ddl(sql, session))
    name, copy = ((session.default_schema, table) for table in ("t", "_t_new"))
    before, after = catalog.table(*name), catalog.table(*copy)
    assert before is not None
    assert after is not None
    found = alter_of(CutOver(name, copy, before, after, None), catalog, session)
    assert found is not None
    assert found.sql.startswith("ALTER TABLE `shop`.`t` ADD COLUMN `v`")
    assert found.tables == (name,)
