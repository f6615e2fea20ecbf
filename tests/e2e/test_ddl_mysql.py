"""Schema changes into another server: schema and rows are equal at the end, whatever dies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.consumer.same import assert_same
from tests.e2e.capture_process import SMALL_WINDOWS, CaptureProcess
from tests.e2e.conftest import CaptureMaker
from tests.processor.to_mysql import PAIRS
from tests.seeds import drawn
from tests.servers import Database

pytestmark = [pytest.mark.real]

# ``{s}`` is the schema, ``{i}`` the round.
_STORY = (
    "insert into a (id) values ({i}), (100 + {i})",
    "alter table a add column c{i} int not null default {i}",
    "insert into a (id, c{i}) values (200 + {i}, 7)",
    "alter table a rename column c{i} to d{i}",
    "update a set d{i} = 8 where id > 100",
    "alter table a drop column d{i}, add key k{i} (v)",
    "delete from a where id = 100 + {i}",
    "insert into b values (1000 + {i}, 'b')",
    "rename table a to swap, b to a, swap to b",
    "insert into b (id, v) values (3000 + {i}, 'from b')",
    "insert into a values (4000 + {i}, 'from a')",
    "rename table a to swap, b to a, swap to b",
    "alter table a drop key k{i}",
    "create table new{i} (id int primary key, v varchar(20))",
    "insert into new{i} values (1, 'at once'), (2, 'and')",
    "update new{i} set v = 'changed' where id = 2",
    "insert into gone values ({i}, 'x')",
    "truncate table gone",
    "insert into gone values ({i}, 'y')",
    "drop table gone",
    "create table gone (id int primary key, other varchar(5), v int)",
    "insert into gone values ({i}, 'z', 1)",
    "drop table gone",
    "create table gone (id int primary key, v varchar(20))",
    "insert into parts values ({i}), (10), (11)",
    "alter table parts add partition (partition p{i} values less than (100 + 10 * {i}))",
    "insert into parts values (95 + 10 * {i})",
    "alter table parts drop partition p0",
    "alter table parts reorganize partition p1 into"
    " (partition p0 values less than (10), partition p1 values less than (90))",
    "insert into parent (id, v) values ({i}, 1)",
    "insert into child values ({i}, {i})",
    "alter table parent add column more{i} int default 3",
    "insert into parent (id, v) values (50 + {i}, 1)",
    "insert into child values (50 + {i}, 50 + {i})",
    "delete from parent where id = {i}",
    "alter table child add column m{i} int, drop foreign key of_parent",
    "alter table child drop column m{i}, add constraint of_parent foreign key (p)"
    " references parent (id) on delete cascade",
    "create database {s}_{i}",
    "create table {s}_{i}.t (id int primary key)",
    "insert into {s}_{i}.t values (1), (2)",
    "drop database {s}_x",
    "create database {s}_x",
    "create table {s}_x.like_it like a",
    "insert into {s}_x.like_it (id) values (1)",
    "rename table {s}_x.like_it to moved{i}",
    "insert into moved{i} (id) values (2)",
)
_TABLES = (
    "create table a (id int primary key, v varchar(20) default 'x')",
    "create table b (id int primary key, v varchar(20))",
    "create table gone (id int primary key, v varchar(20))",
    "create table parent (id int primary key, v int)",
    "create table child (id int primary key, p int, constraint of_parent foreign key (p)"
    " references parent (id) on delete cascade)",
    "create table parts (id int not null) partition by range (id)"
    " (partition p0 values less than (10), partition p1 values less than (90))",
    "create table steady (id int primary key auto_increment, v varchar(50))",
)


@pytest.fixture(scope="module")
def own(captures: CaptureMaker) -> CaptureProcess:
    """Return a capture whose windows are small."""
    return captures(settings=SMALL_WINDOWS)


@contextmanager
def _load(source: Database, schema: str) -> Iterator[None]:
    """Rows of a table that no change touches, all the time."""
    stopping = threading.Event()

    def work() -> None:
        with source.connect(database=schema) as connection, connection.cursor() as cursor:
            while not stopping.wait(0.01):
                cursor.execute("insert into steady (v) values ('a'), ('b')")
                cursor.execute("update steady set v = concat(v, 'x') order by id desc limit 3")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _schemas(database: Database, schema: str) -> list[str]:
    rows = database.execute(f"show databases like '{schema}%'".replace("_", "\\_"))
    return sorted(str(name) for (name,) in rows)


@pytest.mark.parametrize("pair", drawn(PAIRS), ids=lambda p: str(p[0]))
def test_schema_changes_of_all_kinds_arrive_while_the_capture_dies(
    own: CaptureProcess,
    database: Callable[..., Database],
    fresh_name: str,
    pair: tuple[str, str],
) -> None:
    source, target = database(pair[0]), database(pair[1])
    schema, feed = fresh_name, fresh_name.replace("_", "-")
    charset = "character set utf8mb4 collate utf8mb4_bin"
    for server in (source, target):
        server.execute(f"create database {schema} {charset}", f"create database {schema}_x")
        server.execute(*_TABLES, database=schema)
    upstream = f"d-{source.name}".replace(".", "-")
    own.register(upstream, source.uri())
    config = {"force_replicate": True}
    sink = f"mysql://root@127.0.0.1:{target.port}/?worker-count=2"
    own.create(feed, upstream, sink, [f"{schema}.*", f"{schema}_*.*"], config)
    with _load(source, schema):
        for i in range(2, 4):
            for number, statement in enumerate(_STORY):
                source.execute(statement.format(i=i, s=schema), database=schema)
                if number in (10 * i, 14 * i):
                    own.kill()
                    own.start(ready=number == 14 * i)
    own.wait_checkpoint(feed, timeout_s=300)
    found = own.feed(feed)
    assert (found["state"], found["stopped_tables"]) == ("normal", [])
    assert _schemas(target, schema) == _schemas(source, schema)
    for name in _schemas(source, schema):
        assert_same(source, target, name)
    own.ask("DELETE", f"/changefeeds/{feed}")


# Of one session, as fast as it goes: where the foreign key comes while a window is cut, or while
# another table's recovery is under way, is another place in each round.
_TIED = (
    "create table p{i} (id int primary key, v int)",
    "create table c{i} (id int primary key, p int)",
    "create table other{i} (id int primary key, v int)",
    "insert into p{i} values (1, 0), (2, 0), (3, 0)",
    "insert into c{i} values (1, 1), (2, 2), (3, 3)",
    "insert into other{i} values (1, 1)",
    "alter table c{i} add foreign key (p) references p{i} (id) on delete cascade on update cascade",
    "delete from p{i} where id = 1",
    "update p{i} set id = id + 10 where id = 2",
    "alter table other{i} add column more int",
    "insert into other{i} values (2, 2, 2)",
)
_ROUNDS = 15


def test_a_foreign_key_that_comes_while_rows_flow_keeps_what_it_cascades(
    own: CaptureProcess, database: Callable[..., Database], fresh_name: str
) -> None:
    """The source logs no cascade, so the target's own must find the rows that they found there."""
    source, target = database("mysql-8.0"), database("mysql-9.7")
    schema, feed = fresh_name, fresh_name.replace("_", "-")
    for server in (source, target):
        server.execute(f"create database {schema}")
    upstream = f"tied-{source.name}".replace(".", "-")
    own.register(upstream, source.uri())
    sink = f"mysql://root@127.0.0.1:{target.port}/?worker-count=2"
    own.create(feed, upstream, sink, [f"{schema}.*"])
    for i in range(_ROUNDS):
        source.execute(*(one.format(i=i) for one in _TIED), database=schema)
    own.wait_checkpoint(feed, timeout_s=300)
    assert own.feed(feed)["stopped_tables"] == []
    assert_same(source, target, schema)
    own.ask("DELETE", f"/changefeeds/{feed}")
