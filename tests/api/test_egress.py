"""What users may have a server reach: sinks, upstreams and certificates as a way into a network."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from pydantic import ValidationError

from cdc.base import egress
from cdc.base.egress import Egress, FileNotAllowed, HostNotAllowed
from cdc.base.errors import TidegateError
from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import open_connection
from cdc.source.settings import SourceSettings
from sink.kafka.clients import open_admin
from sink.kafka.settings import KafkaSettings
from sink.kafka.sockets import CheckedSocket
from sink.mysql.connection import SinkSession
from sink.mysql.settings import MysqlSettings
from sink.open import open_sink
from tests.api.server_process import CdcServer, without_spark
from tests.servers import Broker, Database
from tests.sink_mysql.relay import Relay

Install = Callable[..., None]
# Ways of writing addresses that a text compared with a text would let through.
DISGUISED = ("127.0.0.2", "2130706434", "0x7f.0.0.2", "0177.0.0.2", "[::ffff:127.0.0.2]", "127.2")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make a policy that of the process while the test lasts."""

    def made(**fields: Any) -> None:
        monkeypatch.setenv(egress.VARIABLE, Egress(**fields).model_dump_json())

    return made


class Trap:
    """Listens at 127.0.0.2 and knows whether anybody came."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.2", 0))
        self.port = int(self._socket.getsockname()[1])

    @property
    def sprung(self) -> bool:
        """Whether a connection has been made."""
        self._socket.setblocking(False)
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


@pytest.fixture
def trap() -> Iterator[Trap]:
    with closing(Trap()) as made:
        yield made


def _upstream(host: str, port: int) -> None:
    info = UpstreamInfo(name="u", uri=f"mysql://root@{host}:{port}")
    open_connection(info, SourceSettings(connect_timeout_s=2)).close()


def _target(host: str, port: int) -> None:
    SinkSession(MysqlSettings.parse(f"mysql://root@{host}:{port}/?timeout=1s")).close()


def _broker(host: str, port: int) -> None:
    uri = f"kafka://{host}:{port}/t?protocol=canal-json&read-timeout=1s"
    with open_admin(KafkaSettings.parse(uri)) as admin:
        admin.list_topics()


WAYS = (_upstream, _target, _broker)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("host", DISGUISED)
def test_nobody_connects_where_the_policy_does_not_let(
    install: Install, trap: Trap, way: Callable[[str, int], None], host: str
) -> None:
    install(hosts=("127.0.0.1", "10.0.0.0/8", "*.example.com"))
    with pytest.raises(HostNotAllowed) as refused:
        way(host, trap.port)
    assert refused.value.code == "TG:ErrHostNotAllowed"
    assert not trap.sprung


def test_without_a_policy_the_trap_is_sprung(trap: Trap) -> None:
    """The control: it does catch whoever comes. It never greets, so only the connection counts."""
    with pytest.raises(TidegateError):
        _target("127.0.0.2", trap.port)
    assert trap.sprung


def test_a_name_that_leads_elsewhere_later(
    install: Install, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebinding: the first answer may be reached, each later one is the trap's."""
    install(hosts=("203.0.113.0/24", "rebound.example.com"))
    answers = iter(["203.0.113.7"])

    def looked_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        address = next(answers, "127.0.0.2")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    assert egress.installed().places("rebound.example.com", 1)[0][4][0] == "203.0.113.7"
    for way in WAYS:
        with pytest.raises(HostNotAllowed):
            way("rebound.example.com", trap.port)
    assert not trap.sprung


def test_brokers_that_a_broker_names_are_looked_at_too(install: Install, broker: Broker) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    with closing(Relay(int(port))) as relay:
        install(hosts=(relay.host, f"{host}/32"))
        uri = f"kafka://{relay.host}:{relay.port}/t?protocol=canal-json&read-timeout=5s"
        with open_admin(KafkaSettings.parse(uri)) as admin:
            assert isinstance(admin.list_topics(), list)
        # The relay alone: what it leads to says that it is at another address.
        install(hosts=(relay.host,))
        with (
            pytest.raises(TidegateError),
            open_admin(KafkaSettings.parse(uri)) as admin,
        ):
            admin.list_topics()
    with pytest.raises(KafkaConnectionError, match="may not connect"):
        CheckedSocket("tidegate-egress://").dns_lookup(host, int(port))


def test_what_may_be_reached_is(install: Install, mysql: Database) -> None:
    install(hosts=("127.0.0.0/31",))
    _upstream("127.0.0.1", mysql.port)
    _target("127.0.0.1", mysql.port)


@pytest.mark.parametrize(
    ("host", "address", "allowed"),
    [
        ("db.example.com", "93.184.216.34", True),
        ("DB.Example.COM.", "93.184.216.34", True),
        ("example.com", "93.184.216.34", False),
        ("evilexample.com", "93.184.216.34", False),
        ("db.example.com.evil.org", "93.184.216.34", False),
        # A name of ours that somebody leads to the metadata of a cloud, or back to this host.
        ("db.example.com", "169.254.169.254", False),
        ("db.example.com", "127.0.0.1", False),
        ("db.example.com", "::1", False),
        ("db.example.com", "fe80::1%eth0", False),
        ("db.example.com", "::ffff:169.254.169.254", False),
        ("db.example.com", "0.0.0.0", False),
        ("any.org", "10.9.8.7", True),
        ("any.org", "::ffff:10.9.8.7", True),
        ("any.org", "11.0.0.1", False),
        ("any.org", "fd00::7", True),
    ],
)
def test_hosts_as_values(host: str, address: str, allowed: bool) -> None:
    policy = Egress(hosts=("10.0.0.0/8", "*.example.com", "fd00::/8"))
    assert policy.allows(host, address) is allowed
    assert Egress().allows(host, address)
    assert not Egress(hosts=()).allows(host, address)


@pytest.mark.parametrize("wrong", ["mysql://h", "a b", "a*.b", "*", "10.0.0.0/40", "h:3306", ""])
def test_an_entry_that_cannot_be_meant_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError):
        Egress(hosts=(wrong,))


def test_files_outside_their_folders(install: Install, tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "ca.pem").write_text("x")
    (inside / "link.pem").symlink_to(outside / "ca.pem")
    install(certificate_folders=(inside,), sink_folders=(inside,))
    for path in (outside / "ca.pem", inside / "link.pem", inside / ".." / "out" / "ca.pem"):
        info = UpstreamInfo(name="u", uri="mysql://root@127.0.0.1:1", ca=str(path))
        target = MysqlSettings.parse(f"mysql://root@127.0.0.1:1/?ssl-ca={path}")
        brokers = KafkaSettings.parse(f"kafka+ssl://127.0.0.1:1/t?protocol=canal-json&ca={path}")
        with pytest.raises(FileNotAllowed):
            open_connection(info, SourceSettings())
        with pytest.raises(FileNotAllowed):
            SinkSession(target)
        with pytest.raises(FileNotAllowed):
            brokers.client_config()
    for scheme in ("file", "binlog"):
        with pytest.raises(FileNotAllowed):
            open_sink(f"{scheme}://{outside}/here?protocol=canal-json", {})
    open_sink(f"file://{inside}/here?protocol=canal-json", {})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdcServer]:
    folder = tmp_path_factory.mktemp("egress")
    config = folder / "server.toml"
    config.write_text('[security.egress]\nhosts = ["127.0.0.1"]\ncertificate-folders = ["/none"]\n')
    with without_spark(folder, "--config", str(config)) as made:
        yield made


def test_the_api_refuses_it_before_anything_is_written(
    server: CdcServer, mysql: Database, trap: Trap
) -> None:
    assert server.api("POST", "/upstreams", {"name": "u", "uri": mysql.uri()}).is_success
    for host in (*DISGUISED, "169.254.169.254", "10.0.0.1"):
        address = f"{host}:{trap.port}"
        bodies: list[tuple[str, str, Any]] = [
            ("POST", "/upstreams", {"name": "v", "uri": f"mysql://root@{address}"}),
            ("PUT", "/upstreams/u", {"uri": f"mysql://root@{address}"}),
        ]
        for uri in (f"mysql://root@{address}/", f"kafka://{address}/t?protocol=canal-json"):
            body = {"changefeed_id": "f", "upstream": "u", "sink_uri": uri}
            bodies.append(("POST", "/changefeeds", body))
        for method, path, body in bodies:
            answer = server.api(method, path, body)
            assert answer.status_code == 400, (body, answer.text)
            assert answer.json()["error_code"] == "TG:ErrHostNotAllowed", (body, answer.text)
    body = {"name": "v", "uri": mysql.uri(), "ca": "/etc/passwd"}
    assert server.api("POST", "/upstreams", body).json()["error_code"] == "TG:ErrFileNotAllowed"
    assert not trap.sprung
    assert [u["name"] for u in server.api("GET", "/upstreams").json()["items"]] == ["u"]
    assert server.api("GET", "/changefeeds").json()["total"] == 0
