"""Which certificates are taken, by what is asked of TLS and which authorities are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import open_connection, rows
from cdc.source.errors import UpstreamNotReady
from cdc.source.settings import SourceSettings
from sink.mysql.connection import SinkSession
from sink.mysql.errors import MysqlTlsFailed
from sink.mysql.settings import MysqlSettings
from tests.servers import Database, tls
from tests.sink_mysql.relay import Relay

_CIPHER = "SHOW STATUS LIKE 'Ssl_cipher'"


@dataclass(frozen=True)
class Place:
    """A server with a certificate for 127.0.0.1, its authority and another one."""

    server: Database
    relay: Relay
    ours: Path
    other: Path


@pytest.fixture(scope="module")
def place(
    database: Callable[..., Database], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    server = database("mariadb-11.8", tls=True)
    assert server.tls is not None
    other = tls.make(tmp_path_factory.mktemp("other"))
    with closing(Relay(server.port)) as relay:
        yield Place(server, relay, server.tls.ca, other.ca)


def encrypted(way: str, uri: str, ca: Path | None) -> bool:
    """Log in as the upstream's or the target's client does; whether TLS is used."""
    if way == "upstream":
        info = UpstreamInfo(name="u", uri=uri, ca=str(ca) if ca else None)
        with closing(open_connection(info, SourceSettings())) as connection:
            return bool(rows(connection, _CIPHER)[0]["value"])
    more = f"{'&' if '?' in uri else '?'}ssl-ca={ca}" if ca else ""
    with closing(SinkSession(MysqlSettings.parse(f"{uri}{more}"))) as session:
        return bool(session.rows(_CIPHER)[0]["value"])


@pytest.mark.real
@pytest.mark.parametrize("way", ["upstream", "target"])
@pytest.mark.parametrize(
    ("mode", "known", "named", "host", "taken"),
    [
        ("required", "other", "", "elsewhere", True),
        ("required", "ours", "", "elsewhere", True),
        # Who names an authority wants it to be asked.
        ("required", "ours", "other", "127.0.0.1", False),
        ("required", "other", "ours", "elsewhere", True),
        ("verify_ca", "other", "", "127.0.0.1", False),
        ("verify_ca", "ours", "", "elsewhere", True),
        ("verify_ca", "ours", "other", "127.0.0.1", False),
        ("verify_identity", "other", "", "127.0.0.1", False),
        ("verify_identity", "ours", "", "127.0.0.1", True),
        ("verify_identity", "ours", "", "elsewhere", False),
        ("", "other", "ours", "127.0.0.1", True),
        ("", "other", "ours", "elsewhere", False),
    ],
)
def test_which_certificates_are_taken(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    mode: str,
    known: str,
    named: str,
    host: str,
    taken: bool,
) -> None:
    """``known``: the authority that the system has; ``named``: the one that the user gives."""
    authorities = {"ours": place.ours, "other": place.other, "": None}
    monkeypatch.setenv("SSL_CERT_FILE", str(authorities[known]))
    at, port = (host, place.server.port) if host == "127.0.0.1" else (place.relay.host, 0)
    uri = f"mysql://root@{at}:{port or place.relay.port}/"
    uri += f"?ssl-mode={mode}" if mode else ""
    if taken:
        assert encrypted(way, uri, authorities[named])
        return
    with pytest.raises((UpstreamNotReady, MysqlTlsFailed)) as caught:
        encrypted(way, uri, authorities[named])
    assert "certificate" in str(caught.value).lower()
