"""What the server of binlog files says to who is no replica, or asks for what is not there."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pydantic import SecretStr

from cdc.base.ids import FeedId
from cdc.binlog.events import EventType
from cdc.binlog.format_description import FormatDescription
from cdc.binlog.gtid_set import GtidSet, MariadbGtidPosition
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, checksum
from cdc.rows.transactions import GtidName
from sink.binlog.ledger import StreamLedger
from sink.binlog.serve.dump import Dump, FileGone
from sink.binlog.serve.login import ReplicaAccess
from sink.binlog.serve.places import Had, HadDomains, HadSet, first_file, head
from sink.binlog.serve.server import BinlogServer
from sink.binlog.tail import Tail
from tests.servers import tls
from tests.sink_binlog.test_writer import UUID, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of two files with three transactions."""
    ledger = StreamLedger(tmp_path, FeedId("i", "feed", 1), "binlog")
    ledger.claim(1)
    tail = write(ledger, Tail(), GtidName(UUID, 5), GtidName(UUID, 7), size=2000)
    write(ledger, tail, GtidName(UUID, 9))
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[BinlogServer]:
    """Return a server of it."""
    with _served(folder) as made:
        yield made


@contextmanager
def _served(folder: Path, tls: ssl.SSLContext | None = None) -> Iterator[BinlogServer]:
    made = BinlogServer(folder, "binlog", ReplicaAccess("repl", SecretStr("right"), tls), 9)
    made.start()
    yield made
    made.close()


def _connect(server: BinlogServer, **how: Any) -> pymysql.Connection:  # type: ignore[type-arg]
    said = {"user": "repl", "password": "right", "ssl_disabled": "ssl" not in how} | how
    return pymysql.connect(host="127.0.0.1", port=server.port, **said)


@pytest.mark.parametrize("how", [{"password": "wrong"}, {"password": ""}, {"user": "root"}])
@pytest.mark.parametrize("version", ["8.0.43", "9.7.4", "11.4.5-MariaDB-log"])
def test_others_are_not_let_in(
    folder: Path, version: str, how: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    form = replace(_form(folder), server_version=version)
    monkeypatch.setattr(BinlogServer, "_form", lambda _: form)
    with _served(folder) as server:
        _connect(server).close()
        with pytest.raises(pymysql.err.OperationalError) as raised:
            _connect(server, **how)
    assert raised.value.args[:1] == (1045,)


def _form(folder: Path) -> FormatDescription:
    first = min(folder.glob("binlog.0*"))
    return FormatDescription.parse(head(first)[0][HEADER_LENGTH:])


def test_with_a_certificate_nobody_is_let_in_without_tls(folder: Path, tmp_path: Path) -> None:
    files = tls.make(tmp_path / "tls")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server_cert, files.server_key)
    with _served(folder, context) as server:
        with pytest.raises(pymysql.err.OperationalError, match="TLS"):
            _connect(server)
        with _connect(server, ssl={"ca": str(files.ca)}) as connection:
            connection.ping()
        with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
            _connect(server, ssl={"ca": str(files.ca)}, password="wrong")
        # Who speaks by TLS is ended with the server too.
        idle = _connect(server, ssl={"ca": str(files.ca)})
    with pytest.raises(pymysql.err.OperationalError):
        idle.ping(reconnect=False)


@pytest.mark.parametrize("data", [b"", b"\0" * 40, b"\xff" * 40, b"\x85\xa6\xff\x01" + b"a" * 60])
def test_what_is_no_login_is_no_login(server: BinlogServer, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 5) as raw:
        raw.recv(4096)
        raw.sendall(len(data).to_bytes(3, "little") + b"\1" + data)
        answer = raw.recv(4096)
    assert not answer or answer[4] in (0xFE, 0xFF)


def test_a_client_is_told_which_files_there_are(server: BinlogServer, folder: Path) -> None:
    with _connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        files = sorted(folder.glob("binlog.0*"))
        assert list(cursor.fetchall()) == [(f.name, str(f.stat().st_size)) for f in files]
        cursor.execute("SET @a= @@global.binlog_checksum, @b = 'it, too'")
        cursor.execute("SELECT @b")
        assert cursor.fetchone() == ("it, too",)
        cursor.execute("SELECT @A")
        assert cursor.fetchone() == ("CRC32",)
        cursor.execute("SHOW VARIABLES LIKE 'SERVER_ID'")
        assert cursor.fetchone() == ("SERVER_ID", "9")
        with pytest.raises(pymysql.err.OperationalError):
            cursor.execute("SELECT * FROM mysql.user")


def _events(dump: Dump, first: Path) -> Iterator[bytes]:
    return chain.from_iterable(dump.events(first, 4, wait=False))


def _names(dumped: Iterator[bytes]) -> list[str]:
    return [EventType(EventHeader.parse(event).type_code).name for event in dumped]


@pytest.mark.parametrize(
    ("had", "begins", "transactions"),
    [("", 0, 3), (f"{UUID}:1-5", 0, 2), (f"{UUID}:1-7", 1, 1), (f"{UUID}:5-9", 1, 0)],
)
def test_what_a_replica_has_is_passed_over(
    folder: Path, had: str, begins: int, transactions: int
) -> None:
    files = sorted(folder.glob("binlog.0*"))
    held: Had = HadSet(GtidSet.parse(had))
    first = first_file(files, held)
    assert first == files[begins]
    names = _names(_events(Dump(lambda: files, 9, had=held), first))
    assert names.count("GTID") == names.count("XID") == names.count("ROWS_QUERY") == transactions
    # Each file is announced, and the first one ends by saying which is next.
    assert names.count("ROTATE") == (2 - begins) + (1 - begins)
    assert names.count("FORMAT_DESCRIPTION") == 2 - begins


def test_what_is_gone_is_told(folder: Path) -> None:
    first, second = sorted(folder.glob("binlog.0*"))
    assert first_file([second], HadSet(GtidSet.parse(f"{UUID}:1-4"))) is None
    with pytest.raises(FileGone):
        list(_events(Dump(lambda: [second], 9), first))


def test_who_asks_for_no_checksums_gets_only_the_first_rotate_without(folder: Path) -> None:
    """As servers of both families do, and ``mysqlbinlog --read-from-remote-server`` expects it."""
    files = sorted(folder.glob("binlog.0*"))
    first, *others = _events(Dump(lambda: files, 9, announced=False), files[0])
    assert EventHeader.parse(first).length == len(first) == HEADER_LENGTH + 8 + len(files[0].name)
    assert all(checksum(event[:-CHECKSUM_LENGTH]) == event[-CHECKSUM_LENGTH:] for event in others)
    assert [o[4] for o in others].count(EventType.ROTATE) == 2


def test_domains_stand_for_themselves() -> None:
    had = HadDomains(MariadbGtidPosition.parse("0-1-8,2-1-3"))
    header = EventHeader(0, EventType.MARIADB_GTID, 5, 0, 0, 0)

    def body(domain: int, number: int) -> bytes:
        return number.to_bytes(8, "little") + domain.to_bytes(4, "little") + bytes(7)

    found = [had.has(header, body(*one)) for one in ((0, 8), (0, 9), (2, 3), (1, 1))]
    assert found == [True, False, True, False]


def test_the_command(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("right\n")
    command = [sys.executable, "-m", "sink.binlog.serve", str(folder), "--server-id", "9",
               "--password-file", str(tmp_path / "secret"), "--listen", "127.0.0.1:0"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        with pymysql.connect(
            host="127.0.0.1", port=int(said.rsplit(":", 1)[1]), user="replica", password="right",
            ssl_disabled=True,
        ) as connection:  # fmt: skip
            connection.ping()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    open_to_others = [*command[:-1], "0.0.0.0:0"]
    refused = subprocess.run(open_to_others, capture_output=True, text=True, check=False)
    assert (refused.returncode, "--cert and --key" in refused.stderr) == (2, True)
