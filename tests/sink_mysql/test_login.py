"""A password is not given to whoever answers: logins without TLS, beyond this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from urllib.parse import quote

import pytest

from cdc.base.errors import TidegateError
from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import open_connection
from cdc.source.login import LoginInsecure, PrivateLogin
from cdc.source.settings import SourceSettings
from sink.kafka.settings import KafkaSettings
from sink.mysql.connection import SinkSession
from sink.mysql.errors import MysqlTlsFailed
from sink.mysql.settings import MysqlSettings
from tests.servers import Database
from tests.sink_mysql.relay import Relay, own_address

PASSWORD = "s3cret"


@pytest.fixture(scope="module")
def relay(mysql: Database) -> Iterator[Relay]:
    """A server's port on the network."""
    for plugin in ("caching_sha2_password", "sha256_password", "mysql_native_password"):
        mysql.execute(
            f"CREATE USER '{plugin[:6]}'@'%' IDENTIFIED WITH {plugin} BY '{PASSWORD}'",
            f"GRANT ALL ON *.* TO '{plugin[:6]}'@'%'",
        )
    with closing(Relay(mysql.port)) as made:
        yield made


def log_in(uri: str, way: str) -> None:
    """Log in as the upstream's or the target's client does."""
    if way == "upstream":
        open_connection(UpstreamInfo(name="u", uri=uri), SourceSettings()).close()
    else:
        SinkSession(MysqlSettings.parse(uri)).close()


@pytest.mark.real
@pytest.mark.parametrize("way", ["upstream", "target"])
@pytest.mark.parametrize("user", ["cachin", "sha256"])
def test_a_password_under_a_key_from_the_network(
    mysql: Database, relay: Relay, user: str, way: str
) -> None:
    far = f"mysql://{user}:{PASSWORD}@{relay.host}:{relay.port}/?"
    near = f"mysql://{user}:{PASSWORD}@127.0.0.1:{mysql.port}/?"

    def forget() -> None:
        # A remembered user of caching_sha2_password shows only a hash.
        mysql.execute("FLUSH PRIVILEGES")

    forget()
    with pytest.raises(LoginInsecure) as caught:
        log_in(f"{far}ssl-mode=disabled", way)
    assert "insecure-login=true" in caught.value.hint
    for uri in (
        f"{far}ssl-mode=disabled&insecure-login=true",
        f"{far}ssl-mode=required",
        f"{near}ssl-mode=disabled",
    ):
        forget()
        log_in(uri, way)
    if user == "cachin":
        log_in(f"{far}ssl-mode=disabled", way)


@pytest.mark.real
@pytest.mark.parametrize("way", ["upstream", "target"])
def test_a_hash_with_a_salt_may_go_over_the_network(relay: Relay, way: str) -> None:
    log_in(f"mysql://mysql_:{PASSWORD}@{relay.host}:{relay.port}/?ssl-mode=disabled", way)


@pytest.mark.real
@pytest.mark.parametrize("way", ["upstream", "target"])
def test_a_login_by_ed25519(database: Callable[..., Database], fresh_name: str, way: str) -> None:
    """The server has a key of the password, and is sent a signature."""
    server = database("mariadb-11.8")
    server.execute(
        "INSTALL PLUGIN IF NOT EXISTS ed25519 SONAME 'auth_ed25519'",
        f"CREATE USER '{fresh_name}'@'%' IDENTIFIED VIA ed25519 USING PASSWORD('{PASSWORD}')",
        f"GRANT ALL ON *.* TO '{fresh_name}'@'%'",
    )
    with closing(Relay(server.port)) as relay:
        at = f"{relay.host}:{relay.port}/?ssl-mode=disabled"
        log_in(f"mysql://{fresh_name}:{PASSWORD}@{at}", way)
        with pytest.raises(TidegateError, match="Access denied"):
            log_in(f"mysql://{fresh_name}:another@{at}", way)


@pytest.mark.real
def test_a_certificate_that_the_systems_authorities_do_not_know(relay: Relay) -> None:
    for scheme in ("mysql+ssl", "mysql"):
        uri = f"{scheme}://cachin:{PASSWORD}@{relay.host}:{relay.port}/"
        uri += "" if scheme == "mysql+ssl" else "?ssl-mode=verify_identity"
        with pytest.raises(MysqlTlsFailed):
            log_in(uri, "target")


class Impostor:
    """Answers in a server's place, and asks for the password by a method of its choice."""

    def __init__(self, plugin: bytes) -> None:
        self._plugin = plugin
        self.heard = b""
        self._listener = socket.create_server((own_address(), 0))
        self.host, self.port = self._listener.getsockname()[:2]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with closing(self._listener), closing(client), suppress(OSError):
            salt = b"0123456789abcdefghij"
            capabilities = 0x00_08_82_00 | 0x0001
            hello = b"\x0a8.0.36\0" + (7).to_bytes(4, "little") + salt[:8] + b"\0"
            hello += (capabilities & 0xFFFF).to_bytes(2, "little") + b"\x2d\x02\0"
            hello += (capabilities >> 16).to_bytes(2, "little") + b"\x15" + bytes(10)
            hello += salt[8:] + b"\0" + b"mysql_native_password\0"
            client.sendall(len(hello).to_bytes(3, "little") + b"\0" + hello)
            self.heard += client.recv(65536)
            ask = b"\xfe" + self._plugin + b"\0" + (b"\x05Password: " if self._dialog else b"")
            client.sendall(len(ask).to_bytes(3, "little") + b"\x02" + ask)
            while data := client.recv(65536):
                self.heard += data

    @property
    def _dialog(self) -> bool:
        return self._plugin == b"dialog"

    def all_heard(self) -> bytes:
        """What it was told until the client went."""
        self._thread.join(30)
        return self.heard


@pytest.mark.parametrize("plugin", ["mysql_clear_password", "dialog", "mysql_old_password"])
@pytest.mark.parametrize("way", ["upstream", "target"])
def test_an_impostor_does_not_hear_the_password(plugin: str, way: str) -> None:
    impostor = Impostor(plugin.encode())
    with pytest.raises(LoginInsecure, match=plugin):
        log_in(f"mysql://root:{PASSWORD}@{impostor.host}:{impostor.port}/", way)
    heard = impostor.all_heard()
    assert b"root" in heard
    assert PASSWORD.encode() not in heard


def test_who_asks_for_it_is_believed() -> None:
    impostor = Impostor(b"mysql_clear_password")
    how = {"user": "root", "password": PASSWORD, "read_timeout": 1, "connect_timeout": 5}
    with suppress(Exception):
        PrivateLogin(insecure_login=True, host=impostor.host, port=impostor.port, **how)
    assert quote(PASSWORD).encode() in impostor.all_heard()


@pytest.mark.parametrize(
    ("uri", "refused"),
    [
        ("kafka://k1:9092,127.0.0.1:9092/t?", True),
        ("kafka://k1:9092/t?sasl-mechanism=plain&", True),
        ("kafka+ssl://k1:9092/t?", False),
        ("kafka://k1:9092/t?enable-tls=true&", False),
        ("kafka://k1:9092/t?sasl-mechanism=SCRAM-SHA-512&", False),
        ("kafka://k1:9092/t?insecure-login=true&", False),
        ("kafka://127.0.0.1:9092,localhost:9093,[::1]:9094/t?", False),
    ],
)
def test_sasl_plain_without_tls(uri: str, refused: bool) -> None:
    whole = f"{uri}protocol=canal-json&sasl-user=u&sasl-password={PASSWORD}"
    if not refused:
        KafkaSettings.parse(whole)
        return
    with pytest.raises(LoginInsecure) as caught:
        KafkaSettings.parse(whole)
    assert PASSWORD not in str(caught.value)
