"""Servers of a sink's streams in the capture that delivers: they go where the changefeed goes."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from pydantic import SecretStr

from cdc.base import egress, secret_refs
from sink.binlog.errors import BinlogListenUnusable, BinlogNotListening
from sink.binlog.serve.login import ReplicaAccess
from sink.binlog.serve.server import BinlogServer
from sink.binlog.settings import BinlogSettings, Listen


class Listening:
    """Servers that run (``sink.contract.Service``)."""

    def __init__(self, servers: Sequence[BinlogServer]) -> None:
        self._servers = servers

    def close(self) -> None:
        """End them, and all connections of replicas."""
        for server in self._servers:
            server.close()


def access(listen: Listen) -> ReplicaAccess:
    """Who may read. Raises BinlogListenUnusable, SecretUnusable or FileNotAllowed."""
    password = secret_refs.resolved(listen.password.get_secret_value())
    if listen.cert is None or listen.key is None:
        return ReplicaAccess(listen.user, SecretStr(password))
    egress.installed().check_certificate(listen.cert, listen.key)
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(listen.cert, listen.key)
    except (OSError, ValueError) as e:
        raise BinlogListenUnusable(
            f"the certificate cannot be used: {getattr(e, 'strerror', None) or type(e).__name__}",
            object="listen-cert, listen-key",
            hint="give PEM files, at each capture, that the server's user may read",
        ) from None
    return ReplicaAccess(listen.user, SecretStr(password), context)


def listening(settings: BinlogSettings) -> Listening | None:
    """A server for each stream, at the port and those behind it; None without ``listen``.

    Raises BinlogNotListening while an address cannot be had, and what ``access`` raises.
    """
    listen = settings.listening
    if listen is None:
        return None
    allowed = access(listen)
    servers: list[BinlogServer] = []
    for number, folder in enumerate(settings.shared.folders):
        port = listen.port + number
        server = BinlogServer(
            folder, settings.name, allowed, listen.server_id + number, listen.host, port
        )
        try:
            server.start()
        except OSError as e:
            Listening(servers).close()
            raise BinlogNotListening(
                f"nobody can listen there: {e.strerror or type(e).__name__}",
                object=f"{listen.host}:{port}",
                hint="see who has the address; one of every capture is 0.0.0.0, with a port that"
                " nobody else uses",
            ) from None
        servers.append(server)
    return Listening(servers)
