"""What the binlog means, end to end: rolled back, behind comments, in two phases, of sequences."""

from __future__ import annotations

import pymysql
import pytest

from tests.e2e.capture_process import CaptureProcess
from tests.servers import Database

pytestmark = [pytest.mark.real]

_BEFORE = (
    "create table i (id int primary key, v int) engine=innodb",
    "create table m (id int primary key) engine=myisam",
    "create table emptied (id int primary key)",
    "insert into emptied values (1), (2)",
    "create table wide (id int primary key, v int)",
    "insert into wide select seq, seq from seq_1_to_1000",
)
_STORY = (
    # Rows that were rolled back, whole and in part.
    "begin",
    "insert into i values (1, 1)",
    "create temporary table x (a int)",
    "rollback",
    "begin",
    "insert into i values (2, 2)",
    "savepoint s",
    "insert into i values (3, 3)",
    "insert into m values (3)",
    "update i set v = 20 where id = 2",
    "rollback to s",
    "insert into i values (4, 4)",
    "commit",
    # What stands behind comments.
    "/*Migration 7*/ truncate table emptied",
    "insert into emptied values (3)",
    # ALTERs of two phases.
    "set session binlog_alter_two_phase = 1",
    "alter table wide add column a int not null default 7",
    "insert into wide (id, v) values (2000, 1)",
    "alter table wide modify v bigint, algorithm=copy",
    "insert into wide (id, v) values (2001, 5000000000)",
    "alter table wide modify v tinyint",
    "insert into wide (id, v) values (2002, 5000000000)",
    "set session binlog_alter_two_phase = 0",
    # Sequences of before and of now, renamed each way, and tables of their names.
    "do nextval(early)",
    "create sequence late",
    "do nextval(late)",
    "rename table late to later",
    "do nextval(later)",
    "alter table early rename to earlier",
    "do nextval(earlier)",
    "do setval(earlier, 5000)",
    "drop table later",
    "create table later (id int primary key)",
    "insert into later values (1)",
    "drop table later",
    "rename table earlier to later",
    "do nextval(later)",
    "insert into i values (9, 9)",
)


def test_a_target_has_what_mariadb_has(
    capture: CaptureProcess, mariadb: Database, fresh_name: str
) -> None:
    schema, copy = fresh_name, f"{fresh_name}_copy"
    mariadb.execute(f"create database {schema}", f"create database {copy}")
    mariadb.execute(*_BEFORE, database=schema)
    # A target must be able to roll back.
    mariadb.execute(*(s.replace("myisam", "innodb") for s in _BEFORE), database=copy)
    mariadb.execute("create sequence early", database=schema)
    capture.register("meaning", mariadb.uri())
    feed = fresh_name.replace("_", "-")
    rules = [f"{schema}.*"]
    config = {"sink": {"dispatchers": [{"matcher": rules, "target-schema": copy}]}}
    capture.create(feed, "meaning", f"mysql://root@127.0.0.1:{mariadb.port}/", rules, config)
    with mariadb.connect(database=schema) as connection, connection.cursor() as cursor:
        for statement in _STORY:
            if statement == "alter table wide modify v tinyint":
                with pytest.raises(pymysql.err.MySQLError):
                    cursor.execute(statement)
            else:
                cursor.execute(statement)
    capture.wait_checkpoint(feed, timeout_s=240)
    found = capture.feed(feed)
    assert (found["state"], found["stopped_tables"]) == ("normal", [])
    assert mariadb.execute(f"select id, v from {schema}.i order by id") == [(2, 2), (4, 4), (9, 9)]
    tables = sorted(
        str(name)
        for (name,) in mariadb.execute(
            "select table_name from information_schema.tables"
            f" where table_schema = '{schema}' and table_type = 'BASE TABLE'"
        )
    )
    for table in tables:
        here = mariadb.execute(f"select * from {schema}.{table} order by 1")
        assert mariadb.execute(f"select * from {copy}.{table} order by 1") == here, table
    capture.ask("DELETE", f"/changefeeds/{feed}")
