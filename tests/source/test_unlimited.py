"""What a server has set for every session cuts none of our results off, and ends none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql
import pytest

from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import open_connection, rows
from cdc.source.settings import SourceSettings
from cdc.source.snapshot import take_snapshot
from filter.rules import TableRules
from sink.mysql.connection import SinkSession
from sink.mysql.settings import MysqlSettings
from tests.servers import Database

pytestmark = pytest.mark.real

_LIMITS = {
    "mysql": "sql_select_limit = 2, completion_type = 2, sql_big_selects = 0, max_join_size = 1,"
    " sql_safe_updates = 1, max_execution_time = 100,"
    " show_gipk_in_create_table_and_information_schema = 0",
    "mariadb": "sql_select_limit = 2, completion_type = 2, sql_big_selects = 0, max_join_size = 1,"
    " sql_safe_updates = 1, max_statement_time = 0.1",
}
_SLOW = "select sleep(0.2) as s, n from (select 1 as n union select 2 union select 3) as t"


@pytest.fixture(params=["mariadb-11.4", "mysql-8.0"])
def limited(
    request: pytest.FixtureRequest,
    database: Callable[..., Database],
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """Return a server that seems to have limits for everybody, while others use it without."""
    server: Any = database(request.param)
    connect = pymysql.connections.Connection.connect

    def careless(connection: Any, sock: Any = None) -> None:
        connect(connection, sock)
        connection.query(f"set session {_LIMITS[server.kind]}")

    monkeypatch.setattr(pymysql.connections.Connection, "connect", careless)
    return server


def _info(server: Any) -> UpstreamInfo:
    return UpstreamInfo(name="u", uri=server.uri(), server_kind=server.kind)


def test_all_tables_are_in_the_schema_of_an_upstream(limited: Any, fresh_name: str) -> None:
    limited.execute(f"create database {fresh_name}")
    limited.execute(*(f"create table t{n} (i int)" for n in range(5)), database=fresh_name)
    _, found = take_snapshot(_info(limited), SourceSettings(), TableRules([f"{fresh_name}.*"]))
    assert len(found["tables"]) == 5


@pytest.mark.parametrize("limited", ["mysql-8.0"], indirect=True)
def test_a_key_that_the_server_has_made_and_hides_is_in_the_schema(
    limited: Any, fresh_name: str
) -> None:
    made = ("set sql_generate_invisible_primary_key = 1", "create table t (i int)")
    limited.execute(f"create database {fresh_name}")
    limited.execute(*made, database=fresh_name)
    _, found = take_snapshot(_info(limited), SourceSettings(), TableRules([f"{fresh_name}.*"]))
    assert "`my_row_id` bigint unsigned NOT NULL" in found["tables"][f"{fresh_name}.t"]


def test_all_rows_are_read_however_long_it_takes(limited: Any) -> None:
    connection = open_connection(_info(limited), SourceSettings())
    assert [row["n"] for row in rows(connection, _SLOW)] == [1, 2, 3]
    connection.close()
    session = SinkSession(MysqlSettings.parse(f"{limited.uri()}/"))
    assert [row["n"] for row in session.rows(_SLOW)] == [1, 2, 3]
    session.close()


def test_a_commit_is_one_and_no_more(limited: Any, fresh_name: str) -> None:
    limited.execute(f"create database {fresh_name}", f"create table {fresh_name}.t (i int)")
    session = SinkSession(MysqlSettings.parse(f"{limited.uri()}/"))
    for statement in ("begin", f"insert into {fresh_name}.t values (1)", "commit"):
        session.run(statement)
    assert session.run(f"update {fresh_name}.t set i = 2") == 1
    session.close()
