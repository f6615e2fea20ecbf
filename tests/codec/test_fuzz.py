"""Mutated row images, with bounds checking on: an error or a result, never an exception."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.codec.fuzz_rows import CODECS
from tests.codec.test_types import _cases
from tests.seeds import drawn


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-8.0"])
# With their bounds checked the kernels of each take a minute to compile, on a busy machine three.
@pytest.mark.parametrize("codec", drawn(CODECS))
def test_mutated_images(
    database: Any, fresh_name: str, tmp_path: Path, name: str, codec: str
) -> None:
    server = database(name)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("set sql_mode='', time_zone='+00:00'")
        cursor.execute(f"create database {fresh_name} character set utf8mb4")
        cursor.execute(f"use {fresh_name}")
        cursor.execute("flush binary logs")
        for n, (kind, _, literals) in enumerate(_cases(server)):
            short = [v for v in literals if "repeat" not in v]
            if not short:
                continue
            cursor.execute(f"create table t{n} (id int primary key, v {kind})")
            values = ",".join(f"({i},{v})" for i, v in enumerate(short))
            cursor.execute(f"insert into t{n} values {values}")
            cursor.execute(f"show create table t{n}")
            (tmp_path / f"{fresh_name}.t{n}.sql").write_text(cursor.fetchone()[1])
    (tmp_path / "data.binlog").write_bytes(server.binlogs()[-1].read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "tests.codec.fuzz_rows", str(tmp_path), "3000", codec],
        env=os.environ | {"NUMBA_BOUNDSCHECK": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "3000 rounds" in done.stdout
