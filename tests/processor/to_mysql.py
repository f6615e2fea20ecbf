"""A log of every shape of conflict, and feeds that deliver it into another server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cdc.changelog.reader import ChangeLog
from tests.processor.in_process import InProcessJobs, Running
from tests.servers import Database
from tests.sink_mysql.replay import content, same_schema
from tests.source.pulling import Pulled

PAIRS = [("mariadb-11.4", "mariadb-11.8"), ("mysql-8.0", "mysql-9.7")]
BULK = 6000

TABLES = (
    "create table spread (id int primary key, v varchar(1000)) charset utf8mb4",
    "create table dated (d date, n decimal(9,2), v int, primary key (d, n))",
    "create table ci (name varchar(20) primary key, v int) collate utf8mb4_general_ci",
    "create table swap (id int primary key, u int, unique key (u))",
    "create table nokey (a int, b varchar(20))",
    "create table parent (id int primary key, v int)",
    "create table child (id int primary key, p int, foreign key (p) references parent (id)"
    " on delete cascade)",
    "create table grandchild (id int primary key, c int, foreign key (c) references child (id)"
    " on delete cascade)",
)


def turn(i: int) -> list[str]:
    """One round: most statements fail, or show, if a row is applied twice or out of order."""
    return [
        f"insert into spread values ({i}, repeat('x', 300)), ({1000 + i}, 'y')",
        f"update spread set id = id + 5000 where id = {1000 + i}",
        f"update spread set v = '{i}' where id = {i}",
        f"insert into spread values ({1000 + i}, 'again')",
        f"insert into dated values ('2024-01-01', {i}.5, {i}), ('2024-01-02', -{i}.25, {i})",
        f"delete from dated where n = {i}.5",
        f"insert into ci values ('name{i}', {i})",
        f"update ci set name = 'NAME{i}' where v = {i}",
        f"insert into swap values ({2 * i}, {2 * i}), ({2 * i + 1}, {2 * i + 1})",
        "start transaction",
        f"update swap set u = null where id = {2 * i}",
        f"update swap set u = {2 * i} where id = {2 * i + 1}",
        f"update swap set u = {2 * i + 1} where id = {2 * i}",
        "commit",
        f"insert into nokey values ({i % 3}, 'a'), ({i % 3}, 'a')",
        f"delete from nokey where a = {i % 3} limit 1",
        "start transaction",
        f"insert into parent values ({i}, {i})",
        f"insert into child values ({i}, {i}), ({-1 - i}, {i})",
        f"insert into grandchild values ({i}, {i})",
        "commit",
        f"delete from parent where id = {i - 1}",
    ]


class Log:
    """The log of one source; ``start_ts`` is before its first row."""

    def __init__(self, folder: Path, source: Database, schema: str, rounds: int = 60) -> None:
        self.folder, self.source, self.schema = folder, source, schema
        source.execute(f"drop database if exists {schema}", f"create database {schema}")
        source.execute(*TABLES, database=schema)
        with Pulled(source, folder) as pulled:
            for i in range(rounds):
                source.execute(*turn(i), database=schema)
                if i == rounds // 2:
                    self._bulk()
            pulled.caught_up()
        opened, _ = pulled.runs()
        self.start_ts = opened.state.first_ts
        opened.close()
        self.wanted = content(source, schema)

    def _bulk(self) -> None:
        """One transaction of several windows, over two tables."""
        digits = "(select 0 d union select 1 union select 2 union select 3 union select 4 union"
        digits += " select 5 union select 6 union select 7 union select 8 union select 9)"
        numbers = f"select a.d + 10 * b.d + 100 * c.d + 1000 * e.d n from {digits} a, {digits} b,"
        numbers += f" {digits} c, {digits} e having n < {BULK // 2}"
        self.source.execute(
            "start transaction",
            f"insert into spread select 100000 + n, repeat('b', 900) from ({numbers}) t",
            f"insert into nokey select n, 'bulk' from ({numbers}) t",
            f"insert into spread select 200000 + n, repeat('c', 900) from ({numbers}) t",
            "commit",
            database=self.schema,
        )

    def empty(self, target: Database, feed: str) -> None:
        """Make the target as the source was at the start."""
        same_schema(self.source, target, self.schema)
        if target.execute("show databases like 'tidegate'"):
            for table in ("ledger", "placement"):
                target.execute(f"delete from tidegate.{table} where changefeed = '{feed}'")

    def run(
        self, target: Database, feed: str, jobs: InProcessJobs, query: str = "", **how: Any
    ) -> Running:
        """Start a feed of all tables into the target."""
        how.setdefault("window_bytes", 1 << 20)
        config = {"force_replicate": True, "filter": {"rules": [f"{self.schema}.*"]}}
        uri = f"{target.uri()}/?{query}".rstrip("?")
        start = self.start_ts
        return Running(self.folder, uri, config, jobs, start_ts=start, feed=feed, **how)

    def large(self) -> int:
        """The commit ts of the large transaction."""
        log = ChangeLog.open(self.folder)
        from cdc.base.position import Position

        runs = log.runs(Position(self.start_ts), Position(log.state.resolved_ts))
        log.close()
        return int(runs.commit_ts[runs.rows.argmax()])


def ledger(target: Database, feed: str) -> dict[int, tuple[Any, ...]]:
    """By bucket: epoch, ts and row."""
    rows = target.execute(
        f"select bucket, epoch, ts, `row` from tidegate.ledger where changefeed = '{feed}'"
    )
    return {row[0]: row[1:] for row in rows}
