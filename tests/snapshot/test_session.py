"""What a server gives to every session does not change which rows are read of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc.coord.messages import UpstreamInfo
from cdc.snapshot.handle import SESSION
from cdc.source.settings import SourceSettings
from processor.chunk_reading import ChunkTask, read_over
from tests.codec.binlog_rows import table_of
from tests.servers import Database

pytestmark = pytest.mark.real

_SERVERS = ["mariadb-11.4", "mysql-8.0"]


@pytest.fixture(params=_SERVERS)
def server(
    request: pytest.FixtureRequest, database: Callable[..., Database], fresh_name: str
) -> Any:
    server = database(request.param)
    server.execute(f"create database {fresh_name}")
    server.execute(
        "create table t (id int primary key, v int)",
        "insert into t values (1, 1), (2, 2), (3, 3)",
        database=fresh_name,
    )
    return server


def _read(server: Any, schema: str, condition: str, folder: Path, *careless: str) -> int:
    """Rows that are read over a session for which the server has set what is ``careless``."""
    info = UpstreamInfo(name="u", uri="mysql://root@127.0.0.1", server_kind=server.kind)
    table = table_of(server, schema, "t")
    task = ChunkTask(info, SourceSettings(), table, condition, 1, str(folder / "chunk"))
    with server.connect() as connection:
        with connection.cursor() as cursor:
            for statement in careless:
                cursor.execute(statement)
        return read_over(connection, task, folder / "chunk")[0]


def test_rows_that_are_rolled_back_later_are_not_read(
    server: Any, fresh_name: str, tmp_path: Path
) -> None:
    with server.connect(database=fresh_name) as other, other.cursor() as cursor:
        cursor.execute("begin")
        cursor.execute("insert into t values (4, 4)")
        cursor.execute("update t set v = 9 where id = 2")
        dirty = "set session transaction isolation level read uncommitted"
        assert _read(server, fresh_name, "1 = 1", tmp_path, dirty) == 3
        assert _read(server, fresh_name, "v = 9", tmp_path, dirty) == 0
        other.rollback()


def test_a_session_that_waits_is_not_ended(server: Any) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("set session wait_timeout = 1")
        for statement in SESSION:
            cursor.execute(statement)
        cursor.execute("select @@wait_timeout")
        assert cursor.fetchone()[0] > 86400 * 20
