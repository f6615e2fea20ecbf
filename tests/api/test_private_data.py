"""Nothing in the data directory can be opened by other users of the host."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import psutil
import pytest

from cdc.server.data_dir import DataDir, DataDirInUse, DataDirNotPrivate
from tests.api.server_process import CdcServer, spark_at_once
from tests.servers import Database
from tests.waiting import until

OTHERS = 0o077


def open_to_others(top: Path) -> list[str]:
    """All paths at and below ``top`` that others than their owner have a right on.

    A server writes files beside and moves them to their place: one may go while it is looked at.
    """
    modes: dict[Path, int] = {}
    below = [Path(folder, n) for folder, *names in os.walk(top) for n in chain(*names)]
    for path in (top, *below):
        with suppress(FileNotFoundError):
            modes[path] = path.lstat().st_mode
    return [f"{p} {m:o}" for p, m in modes.items() if not stat.S_ISLNK(m) and m & OTHERS]


@pytest.fixture(scope="module")
def once_open(tmp_path_factory: pytest.TempPathFactory, mariadb: Database) -> Iterator[CdcServer]:
    """A server on a directory that all could enter, made by a careless umask."""
    top = tmp_path_factory.mktemp("once-open")
    top.chmod(0o755)
    server = CdcServer(top / "data", *spark_at_once(top))
    old = server.data_dir / "log" / "old" / "0"
    old.mkdir(parents=True)
    (old / "000001.binlog").write_bytes(b"rows")
    for path in (server.data_dir, *server.data_dir.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = os.umask(0)
    try:
        server.start()
    finally:
        os.umask(before)
    try:
        body = {"name": "main", "uri": mariadb.uri()}
        assert server.api("POST", "/upstreams", body).is_success
        mariadb.execute("CREATE DATABASE once_open", "DROP DATABASE once_open")
        yield server
    finally:
        server.end()


@pytest.mark.real
def test_an_open_directory_is_closed_and_what_is_written_is_private(once_open: CdcServer) -> None:
    data = once_open.data_dir
    kinds = {"meta.db", "token", "lock", "manifest", "000001.binlog", "000001.index"}
    until(lambda: kinds <= {p.name for p in data.rglob("*")}, "files of every kind")
    assert open_to_others(data) == []
    assert "were open to others and are closed now" in once_open.log.read_text()


@pytest.mark.real
def test_sockets_and_scratch_of_spark_are_private(once_open: CdcServer) -> None:
    assert once_open.process is not None
    family = psutil.Process(once_open.process.pid).children(recursive=True)
    bound = {
        Path(c.laddr)
        for p in family
        for c in p.net_connections("unix")
        if isinstance(c.laddr, str) and c.laddr.endswith(".sock")
    }
    assert bound, "Spark's daemon listens on a Unix socket"
    for path in bound:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert not path.stat().st_mode & OTHERS
    assert list((once_open.data_dir / "spark").rglob("blockmgr-*"))


@pytest.mark.real
def test_spark_serves_no_pages(once_open: CdcServer) -> None:
    assert once_open.process is not None
    process = psutil.Process(once_open.process.pid)
    for one in process.children(recursive=True):
        for found in one.net_connections("tcp"):
            if found.status != psutil.CONN_LISTEN:
                continue
            with socket.create_connection(found.laddr, 2) as sock:
                sock.settimeout(2)
                sock.sendall(b"GET /jobs/ HTTP/1.0\r\n\r\n")
                try:
                    assert not sock.recv(100).startswith(b"HTTP/")
                except (TimeoutError, ConnectionError):
                    continue


@pytest.mark.real
def test_a_password_needs_not_be_on_the_command_line(
    once_open: CdcServer, mariadb: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = "Gr3at/S3cret@:#word"
    mariadb.execute(f"CREATE OR REPLACE USER 'quiet'@'%' IDENTIFIED BY '{password}'")
    mariadb.execute("GRANT ALL ON *.* TO 'quiet'@'%'")
    bare, whole = (mariadb.uri("quiet", p) for p in ("", password))
    file = tmp_path / "password"
    file.write_text(f"{password}\n")
    create = ("upstream", "create", "-u", "quiet", "--uri")
    for words, stdin, variable in (
        ((bare, "--password-file", str(file)), "", ""),
        (("-",), f"{whole}\n", ""),
        ((bare,), "", password),
    ):
        monkeypatch.setenv("TIDEGATE_PASSWORD", variable)
        done = once_open.cli(*create, *words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        assert once_open.cli("upstream", "remove", "-u", "quiet").returncode == 0
    done = once_open.cli(*create, whole, "--password-file", str(file))
    assert done.stderr.startswith("Error: [TG:ErrPasswordUnusable] the URI has a password already")
    done = once_open.cli(*create, bare, "--password-file", str(tmp_path / "none"))
    assert "TG:ErrPasswordUnusable" in done.stderr
    assert password not in once_open.log.read_text() + done.stderr


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    data = tmp_path / "data"
    data.mkdir()
    (data / "lock").symlink_to(victim)
    with pytest.raises(DataDirNotPrivate, match="symbolic link") as caught:
        DataDir(data)
    assert caught.value.object == str(data / "lock")
    assert victim.read_text() == "precious"


def test_what_belongs_to_another_user_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    DataDir(data).close()
    (data / "log").mkdir(mode=0o755)
    # Tests cannot become another user, so everybody else's files become those of one.
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(DataDirNotPrivate, match="belongs to the user with id") as caught:
        DataDir(data)
    assert caught.value.object == str(data)
    assert stat.S_IMODE((data / "log").stat().st_mode) == 0o755


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_below_is_named_and_the_lock_given_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    DataDir(data).close()
    planted = data / "log"
    planted.mkdir()
    os.chown(planted, 12345, 12345)
    with pytest.raises(DataDirNotPrivate) as caught:
        DataDir(data)
    assert caught.value.object == str(planted)
    os.chown(planted, 0, 0)
    DataDir(data).close()


def test_a_log_on_another_disk_is_closed_too_and_a_second_server_mends_nothing(
    tmp_path: Path,
) -> None:
    data, disk = tmp_path / "data", tmp_path / "disk"
    (disk / "log" / "main").mkdir(parents=True, mode=0o755)
    data.mkdir(mode=0o755)
    (data / "log").symlink_to(disk / "log")
    (disk / "log" / "round").symlink_to(disk / "log")
    first = DataDir(data)
    assert first.mended == 3
    assert open_to_others(disk / "log") == []
    with pytest.raises(DataDirInUse):
        DataDir(data)
    first.close()
    again = DataDir(data)
    assert again.mended == 0
    again.close()
