"""``cdc log print`` and ``verify`` over files of every server, our own segments, and damage."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cdc.binlog.reader import BinlogReader
from cdc.binlog.writer import BinlogWriter
from cdc.cli.log import app
from tests.binlog import workload
from tests.binlog.sample import MARIADB, MYSQL, small
from tests.seeds import drawn
from tests.servers import Database
from tests.source.pulling import Pulled

ALL = (
    "mariadb-10.4", "mariadb-10.11", "mariadb-11.4", "mariadb-11.8",
    "mysql-5.6", "mysql-5.7", "mysql-8.0", "mysql-9.7",
)  # fmt: skip
WITHOUT_METADATA = ("mariadb-10.4", "mysql-5.6", "mysql-5.7")
DDL = (
    "create table t (id int unsigned primary key, name varchar(20) character set latin1,"
    " `odd \"name` text character set utf8mb4, kind enum('a','b') character set latin1,"
    " raw blob, small smallint, at datetime(3)) default charset utf8mb4"
)
ROW = (
    "insert into t values (4294967295, 'é', '日本😀', 'b', x'00ff', -1, '2026-01-02 03:04:05.678')"
)


def log(*words: str | Path) -> Result:
    """The command in this process; a traceback would be an exception of the result."""
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


@pytest.fixture(scope="module")
def written(database: Callable[..., Database]) -> Callable[[str], tuple[Path, str]]:
    """A file of a server with some rows of one table, and its SHOW CREATE TABLE."""

    def write(name: str) -> tuple[Path, str]:
        server = database(name)
        setup = ("set names utf8mb4", "flush logs", "drop database if exists printing")
        with server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
            for statement in (*setup, "create database printing", "use printing", DDL, ROW):
                cursor.execute(statement)
            cursor.execute("update t set name = null, small = 2")
            cursor.execute("delete from t")
            cursor.execute("show create table t")
            create = cursor.fetchone()[1]
            cursor.execute("flush logs")
        return server.binlogs()[-2], create

    return write


def values(result: Result) -> list[tuple[str, Any, Any]]:
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return [(r["type"], r["old"], r["data"]) for r in rows]


FIRST = {
    "id": "4294967295", "name": "é", 'odd "name': "日本😀", "kind": "2", "raw": "\x00ÿ",
    "small": "-1", "at": "2026-01-02 03:04:05.678",
}  # fmt: skip
EXPECTED = [
    ("INSERT", None, [FIRST]),
    ("UPDATE", [FIRST], [FIRST | {"name": None, "small": "2"}]),
    ("DELETE", None, [FIRST | {"name": None, "small": "2"}]),
]


@pytest.mark.parametrize("name", ALL)
def test_rows_have_their_names_by_schema_or_metadata(
    name: str, written: Any, tmp_path: Path
) -> None:
    """Both ways the same; without either an error that names the column."""
    path, create = written(name)
    schema = tmp_path / "schema.sql"
    schema.write_text(
        f"-- of a dump; with a semicolon\n/* and; another */\nUSE printing;\n{create};"
    )
    given = log("print", path, "--format", "canal-json", "--schema", schema)
    assert values(given) == EXPECTED
    alone = log("print", path, "--format", "canal-json")
    if name in WITHOUT_METADATA:
        assert alone.exit_code == 1
        assert alone.stdout == ""
        assert re.search(r"ErrRowsNeedSchema\] printing\.t: .*@1 .*\d{6}:\d+", alone.stderr)
    else:
        assert values(alone) == EXPECTED


@pytest.mark.parametrize("name", ALL)
def test_text_guesses_nothing(name: str, written: Any, tmp_path: Path) -> None:
    """What the binlog does not tell is shown as hex, as a number, or in both readings."""
    path, create = written(name)
    shown = log("print", path).stdout
    if name in WITHOUT_METADATA:
        assert '@1 = "-1" or "4294967295"' in shown
        assert "@2 = x'e9'" in shown
        assert '@4 = "2"' in shown
        assert "@5 = x'00ff'" in shown
        assert '@6 = "2" or' not in shown
    else:
        assert 'id = "4294967295"' in shown
        assert 'name = NULL  (was "é")' in shown
    schema = tmp_path / "schema.sql"
    schema.write_text(re.sub(r"\) ENGINE.*", ")", create))
    by_schema = log("print", path, "--schema", schema).stdout
    assert 'name = "é"' in by_schema
    assert "raw = x'00ff'" in by_schema


@pytest.mark.parametrize("name", ALL)
def test_every_event_of_a_server_is_printed(name: str, database: Any) -> None:
    """A line for each event, images that are not full among them; and verify agrees."""
    server = database(name)
    before = len(server.binlogs())
    workload.run(server.connect, server.kind, tuple(server.version))
    for path in server.binlogs()[before - 1 : -1]:
        result = log("print", path)
        assert result.exit_code == 0, result.stderr
        printed = {int(n) for n in re.findall(r"^ *(\d+)  \d{4}-", result.stdout, re.M)}
        assert printed == {event.offset for event in BinlogReader(path)}
        assert "(not in this image)" in result.stdout
        verified = log("verify", path)
        assert verified.exit_code == 0, verified.stderr
        assert f"{path.stat().st_size} bytes: good" in verified.stdout


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-8.0"])
def test_segments_of_our_own_log(name: str, database: Any, tmp_path: Path) -> None:
    """What a puller wrote prints and verifies like the server's own file, rows the same."""
    server = database(name)
    with Pulled(server, tmp_path / "log") as pulled:
        server.execute("drop database if exists segments", "create database segments")
        server.execute(DDL, ROW, "update t set small = 2", "delete from t", database="segments")
        pulled.caught_up()
    segment = tmp_path / "log" / "000001.binlog"
    rows = [
        json.loads(line)
        for line in log("print", segment, "--format", "canal-json").stdout.splitlines()
    ]
    found = [(r["type"], r["data"][0]["small"]) for r in rows if r["database"] == "segments"]
    assert found == [("INSERT", "-1"), ("UPDATE", "2"), ("DELETE", "2")]
    verified = log("verify", segment)
    assert (verified.exit_code, verified.stderr) == (0, "")
    assert "WRITE_ROWS" in verified.stdout


def test_schema_that_does_not_fit(written: Any, tmp_path: Path) -> None:
    """A wrong schema is an error with its place, not wrong values."""
    path, create = written("mysql-8.0")
    schema = tmp_path / "schema.sql"
    for wrong in (create.replace("smallint", "int"), create.replace("`name`", "`other`")):
        schema.write_text(wrong)
        result = log("print", path, "--schema", schema)
        assert result.exit_code == 1
        assert re.search(r"ErrSchemaMismatch\] printing\.t.*\d{6}:\d+", result.stderr)
    schema.write_text("create table t (broken")
    assert log("print", path, "--schema", schema).exit_code == 1
    assert "ErrSchemaFileUnreadable" in log("print", path, "--schema", tmp_path / "none").stderr


@pytest.mark.parametrize(
    ("version", "crc32"), drawn(list(product([MYSQL, MARIADB], [True, False])), names=2)
)
def test_damaged_files(version: str, crc32: bool, tmp_path: Path) -> None:
    """Damage ends in exit code 0 or 1 with one line; never a traceback, never a hang."""
    data, dice, path = small(version, crc32=crc32), Random(3), tmp_path / "bin.000001"
    schema = tmp_path / "schema.sql"
    schema.write_text("create table w.t (a int not null)")
    failed = 0
    for _ in range(150):
        damaged = bytearray(data[: dice.randrange(len(data)) if dice.random() < 0.3 else None])
        for _ in range(dice.randrange(4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        path.write_bytes(damaged)
        for words in (
            ("print", path),
            ("print", path, "--schema", schema, "--format", "canal-json"),
            ("verify", path),
        ):
            result = log(*words)
            assert result.exit_code in (0, 1)
            if result.exit_code:
                failed += 1
                assert re.fullmatch(
                    r"error: \[TG:Err\w+\] [^\n]*bin\.000001[^\n]*\n", result.stderr
                )
    assert failed > (150 if crc32 else 50)


def test_a_pipe_that_closes_early_and_a_quick_start(tmp_path: Path) -> None:
    """As a program: ``head`` may leave, and verify does not load the kernels."""
    path, file = tmp_path / "bin.000001", io.BytesIO()
    writer = BinlogWriter(file, MYSQL)
    for _ in range(4000):
        writer.query("CREATE DATABASE x")
    path.write_bytes(file.getvalue())
    command = f"{sys.executable} -m cdc.cli.main log print {path} | head -3"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (len(done.stdout.splitlines()), done.stderr) == (3, "")
    code = (
        "import sys; from cdc.cli.log import app\n"
        f"try: app(['verify', {str(path)!r}])\n"
        "except SystemExit as e: assert not e.code\n"
        "heavy = {'numba', 'pyspark', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
