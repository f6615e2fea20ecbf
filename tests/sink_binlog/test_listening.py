"""The capture serves the files of a changefeed while it runs there."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import quote

import pymysql
import pytest

from cdc.base.errors import ErrorKind
from cdc.base.ids import FeedId
from cdc.rows.transactions import GtidName
from processor.feed_service import FeedService
from sink.binlog.errors import BinlogListenUnusable, BinlogNotListening
from sink.binlog.ledger import StreamLedger
from sink.binlog.tail import Tail
from sink.errors import SinkURIInvalid
from sink.open import open_sink
from tests.servers import tls
from tests.sink_binlog.test_writer import UUID, write

WHO = "&listen-user=repl&listen-password=right&listen-server-id=9"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of two streams with a file each."""
    for name in ("stream-00", "stream-01"):
        (tmp_path / name).mkdir()
        ledger = StreamLedger(tmp_path / name, FeedId("i", "feed", 1), "binlog")
        ledger.claim(1)
        write(ledger, Tail(), GtidName(UUID, 5))
    return tmp_path


def _free() -> int:
    """Return a port with a free one behind it."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port = int(first.getsockname()[1])
            try:
                socket.create_server(("127.0.0.1", port + 1)).close()
            except OSError:
                continue
            return port


def _asked(port: int, sql: str, **how: object) -> list[tuple[object, ...]]:
    said = {"user": "repl", "password": "right", "ssl_disabled": "ssl" not in how} | how
    with (
        pymysql.connect(host="127.0.0.1", port=port, **said) as connection,  # type: ignore[arg-type]
        connection.cursor() as cursor,
    ):
        cursor.execute(sql)
        return list(cursor.fetchall())


def test_each_stream_has_a_server_which_goes_with_the_changefeed(folder: Path) -> None:
    port = _free()
    uri = f"binlog://{folder}?streams=2&listen=127.0.0.1:{port}{WHO}"
    here, there = FeedService(), FeedService()
    here.begin(open_sink(uri, {}))
    here.begin(open_sink(uri, {}))
    known = [_asked(port + i, "SELECT @@GLOBAL.server_id") for i in range(2)]
    assert known == [[("9",)], [("10",)]]
    assert len(_asked(port, "SHOW BINARY LOGS")) == 1
    with pytest.raises(BinlogNotListening) as raised:
        there.begin(open_sink(uri, {}))
    assert raised.value.kind is ErrorKind.TRANSIENT
    assert raised.value.object == f"127.0.0.1:{port}"
    here.end()
    there.begin(open_sink(uri, {}))
    assert [_asked(port + i, "SELECT @@GLOBAL.server_id") for i in range(2)] == known
    there.end()
    # A recovery that is late finds the end.
    there.begin(open_sink(uri, {}))
    with pytest.raises(pymysql.err.OperationalError):
        _asked(port, "SHOW BINARY LOGS")


def test_all_streams_are_served_or_none(folder: Path) -> None:
    port = _free()
    uri = f"binlog://{folder}?streams=2&listen=127.0.0.1:{port}{WHO}"
    with socket.create_server(("127.0.0.1", port + 1)), pytest.raises(BinlogNotListening):
        open_sink(uri, {}).serve()
    socket.create_server(("127.0.0.1", port)).close()


def test_with_a_certificate_nobody_is_let_in_without_it(folder: Path, tmp_path: Path) -> None:
    port, files = _free(), tls.make(tmp_path / "tls")
    secret = tmp_path / "secret"
    uri = (
        f"binlog://{folder}?streams=2&listen=127.0.0.1:{port}{WHO}"
        f"&listen-cert={quote(str(files.server_cert))}&listen-key="
    )
    secret.write_text("no key")
    bad = open_sink(f"{uri}{quote(str(secret))}", {})
    with pytest.raises(BinlogListenUnusable):
        bad.driver().verify([], mariadb=True)
    service = open_sink(f"{uri}{quote(str(files.server_key))}", {}).serve()
    assert service is not None
    try:
        with pytest.raises(pymysql.err.OperationalError):
            _asked(port, "SHOW BINARY LOGS")
        assert _asked(port, "SHOW BINARY LOGS", ssl={"ca": str(files.ca)})
    finally:
        service.close()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("listen=3307" + WHO, "HOST:PORT"),
        ("listen=127.0.0.1:0" + WHO, "port"),
        ("listen=127.0.0.1:65535&streams=2" + WHO, "port"),
        ("listen=0.0.0.0:3307" + WHO, "listen-tls=false"),
        ("listen=127.0.0.1:3307&listen-server-id=9", "listen-password"),
        ("listen=127.0.0.1:3307&listen-password=x", "listen-server-id"),
        ("listen-password=x", "needs listen"),
        ("listen-cert=/c&listen=127.0.0.1:3307" + WHO, "belong together"),
    ],
)
def test_what_cannot_be_served_is_refused(said: str, why: str) -> None:
    with pytest.raises(SinkURIInvalid, match=why) as raised:
        open_sink(f"binlog:///data/binlogs?{said}", {})
    assert "right" not in str(raised.value)


def test_who_trusts_all_may_listen_without_tls() -> None:
    open_sink(f"binlog:///data/binlogs?listen=0.0.0.0:3307&listen-tls=false{WHO}", {})
