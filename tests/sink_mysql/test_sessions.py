"""Users, grants, locks, TLS and read-only targets of real servers: the right kind of error."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from cdc.base.errors import ErrorKind
from cdc.base.position import START, Position
from sink.mysql import connection
from sink.mysql.deliverer import TARGET, MysqlDeliverer
from sink.mysql.driver import MysqlDriver
from sink.mysql.errors import (
    MysqlAccessDenied,
    MysqlLedgerInvalid,
    MysqlLockWait,
    MysqlReadOnly,
    MysqlTlsFailed,
    MysqlUnavailable,
)
from sink.mysql.settings import MysqlSettings
from tests.codec.binlog_rows import TS, table_of
from tests.sink_mysql.replay import FEED, Replay, content, same_schema, settings_of

_SERVERS = ["mariadb-11.4", "mysql-8.0"]
_RIGHT = {"mariadb": "BINLOG REPLAY", "mysql": "REPLICATION_APPLIER"}


def _small_table(server: Any, schema: str) -> Replay:
    server.execute(
        f"create database {schema} charset utf8mb4 collate utf8mb4_general_ci",
        f"create table {schema}.t (id int primary key, v int)",
        "flush binary logs",
        f"insert into {schema}.t values (1, 1), (2, 2)",
        f"update {schema}.t set v = 3",
    )
    return Replay.of(server, schema)


@pytest.mark.parametrize("name", _SERVERS)
def test_least_grants(database: Any, fresh_name: str, name: str) -> None:
    source, target = database("mariadb-11.4"), database(name)
    schema, user = fresh_name, f"'u{abs(hash(fresh_name)) % 10**8}'@'%'"
    replay = _small_table(source, schema)
    if target is not source:
        same_schema(source, target, schema)
    else:
        target.execute(f"truncate table {schema}.t")
    target.execute(
        "drop database if exists tidegate", f"create user {user} identified by 'c2VjcmV0'"
    )
    plain = user.split("'")[1]
    uri = f"mysql://{plain}:c2VjcmV0@127.0.0.1:{target.port}/?apply=rows"
    settings = MysqlSettings.parse(uri)
    driver, tables = MysqlDriver(settings), [table_of(source, schema, "t")]
    with pytest.raises(MysqlAccessDenied, match=_RIGHT[target.kind]):
        driver.verify(tables, mariadb=True)
    target.execute(f"grant {_RIGHT[target.kind]} on *.* to {user}")
    with pytest.raises(MysqlAccessDenied, match="GRANT CREATE, SELECT, INSERT, UPDATE, DELETE"):
        driver.verify(tables, mariadb=True)
    target.execute(f"grant create, select, insert, update, delete on tidegate.* to {user}")
    with pytest.raises(Exception, match="no such table, or hides it"):
        driver.verify(tables, mariadb=True)
    target.execute(f"grant select, insert, update, delete on {schema}.* to {user}")
    driver.verify(tables, mariadb=True)
    driver.recover(FEED, 1, 1, (), START)
    deliverer = MysqlDeliverer(settings, FEED, 1)
    deliverer.begin()
    replay.send(deliverer)
    deliverer.commit({(TARGET, 0): Position(TS)})
    deliverer.close()
    assert content(target, schema)["t"] == [("31", "33"), ("32", "33")]
    # Without the right to BINLOG there is still text.
    auto = MysqlDriver(MysqlSettings.parse(uri.replace("rows", "auto")))
    entries = [(tables[0], None)]
    assert auto.applied(entries, mariadb=True)[0].method == "rows"
    target.execute(f"revoke {_RIGHT[target.kind]} on *.* from {user}")
    auto.verify(tables, mariadb=True)
    (one,) = auto.applied(entries, mariadb=True)
    assert (one.method, one.reason) == ("sql", "the sink's user has no right to BINLOG")
    target.execute(f"grant {_RIGHT[target.kind]} on *.* to {user}")
    # The user's password is what the sink's is as base64, which TiCDC allows.
    target.execute(f"alter user {user} identified by 'secret'")
    driver.verify(tables, mariadb=True)
    target.execute(f"alter user {user} identified by 'other'")
    with pytest.raises(MysqlAccessDenied) as e:
        driver.verify(tables, mariadb=True)
    assert e.value.kind is ErrorKind.INVALID
    assert "c2VjcmV0" not in str(e.value)
    target.execute(f"drop user {user}")


@pytest.mark.parametrize("name", _SERVERS)
def test_a_lock_that_is_not_granted(
    database: Any, fresh_name: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_LOCK_WAIT_S", 1)
    source, target = database("mariadb-11.8"), database(name)
    replay = _small_table(source, fresh_name)
    same_schema(source, target, fresh_name)
    with target.connect(autocommit=False) as holder, holder.cursor() as cursor:
        cursor.execute(f"insert into {fresh_name}.t values (2, 9)")
        with pytest.raises(MysqlLockWait) as e:
            replay.deliver(target)
        assert e.value.kind is ErrorKind.TRANSIENT
        holder.rollback()
    replay.deliver(target)
    assert content(target, fresh_name) == content(source, fresh_name)


def test_read_only_target(database: Any, fresh_name: str) -> None:
    source, target = database("mariadb-11.4"), database("mysql-8.0")
    replay = _small_table(source, fresh_name)
    same_schema(source, target, fresh_name)
    try:
        target.execute("set global super_read_only = 1")
        with pytest.raises(MysqlReadOnly):
            MysqlDriver(settings_of(target)).verify([], mariadb=True)
        with pytest.raises(MysqlReadOnly) as e:
            MysqlDriver(settings_of(target)).recover(FEED, 1, 1, (), START)
        assert e.value.kind is ErrorKind.TRANSIENT
    finally:
        target.execute("set global super_read_only = 0", "set global read_only = 0")
    replay.deliver(target)
    assert content(target, fresh_name) == content(source, fresh_name)


def test_a_ledger_that_is_not_ours(database: Any) -> None:
    target = database("mysql-8.0")
    target.execute("drop database if exists tidegate", "create database tidegate")
    target.execute("create table tidegate.ledger (id int)")
    with pytest.raises(MysqlLedgerInvalid, match="rename it"):
        MysqlDriver(settings_of(target)).recover(FEED, 1, 1, (), START)
    target.execute("drop database tidegate")


def test_nobody_listens() -> None:
    with pytest.raises(MysqlUnavailable) as e:
        MysqlDriver(MysqlSettings.parse("mysql://root@127.0.0.1:1/")).verify([], mariadb=True)
    assert e.value.kind is ErrorKind.TRANSIENT


def test_tls(database: Any, fresh_name: str) -> None:
    source, target = database("mariadb-11.4"), database("mariadb-11.8", tls=True)
    replay = _small_table(source, fresh_name)
    same_schema(source, target, fresh_name)
    ca = target.tls.ca
    settings = settings_of(target, f"?ssl-ca={ca}")
    session = connection.SinkSession(settings)
    assert session.rows("show status like 'Ssl_cipher'")[0]["value"]
    session.close()
    target.execute("drop database if exists tidegate")
    MysqlDriver(settings).recover(FEED, 1, 1, (), START)
    deliverer = MysqlDeliverer(settings, FEED, 1)
    deliverer.begin()
    replay.send(deliverer)
    deliverer.commit({(TARGET, 0): Position(TS)})
    deliverer.close()
    assert content(target, fresh_name) == content(source, fresh_name)
    with pytest.raises(MysqlTlsFailed, match="cannot be read"):
        connection.SinkSession(settings_of(target, "?ssl-ca=/nowhere"))
    system_ca = ssl.get_default_verify_paths().cafile
    if system_ca:
        with pytest.raises(MysqlTlsFailed):
            connection.SinkSession(settings_of(target, f"?ssl-ca={system_ca}"))


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("mariadb-11.4", "binlog_annotate_row_events"),
        ("mysql-8.0", "binlog_rows_query_log_events"),
        ("mysql-5.6", "binlog_rows_query_log_events"),
    ],
)
def test_the_target_does_not_log_our_statements(database: Any, name: str, variable: str) -> None:
    session = connection.SinkSession(settings_of(database(name)))
    try:
        assert session.rows(f"SELECT @@session.{variable} AS v")[0]["v"] == 0
    finally:
        session.close()
