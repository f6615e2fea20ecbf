"""What is read of a table is on its way to the disk before all of it is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.changelog import files
from cdc.coord.messages import UpstreamInfo
from cdc.source.settings import SourceSettings
from processor.chunk_reading import ChunkTask, read_over
from tests.codec.binlog_rows import table_of
from tests.servers import Database

pytestmark = pytest.mark.real

_MIB = 1 << 20


def test_a_chunk_is_written_out_while_it_is_read(
    database: Callable[..., Database],
    fresh_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = database("mysql-8.0")
    numbers = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 1000)"
    server.execute(f"create database {fresh_name}")
    server.execute(
        "create table t (id int primary key, v varchar(10000) character set latin1)",
        f"insert into t {numbers} select i, repeat(char(97 + i % 26), 10000) from n",
        database=fresh_name,
    )
    begun = list[tuple[int, int]]()

    def noted(fd: int, offset: int, length: int) -> None:
        assert os.fstat(fd).st_size >= offset + length, "the kernel has it"
        begun.append((offset, offset + length))

    monkeypatch.setattr(files, "start_writing", noted)
    info = UpstreamInfo(name="u", uri="mysql://root@127.0.0.1", server_kind=server.kind)
    path = tmp_path / "chunk"
    task = ChunkTask(info, SourceSettings(), table_of(server, fresh_name, "t"), "1 = 1", 1, "")
    with server.connect() as connection:
        assert read_over(connection, task, path)[0] == 1000
    assert len(begun) >= 2
    assert [begin for begin, _ in begun] == [0, *(end for _, end in begun[:-1])]
    assert path.stat().st_size - begun[-1][1] < 5 * _MIB
