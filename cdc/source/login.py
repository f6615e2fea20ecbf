"""Logging in to a server without giving the password to whoever answers in its place.

Some methods show the server the password itself: ``mysql_clear_password``, PAM's ``dialog``, and
``sha256_password`` and the full ``caching_sha2_password`` where no TLS is, by an RSA key that all
on the way can replace by their own. The hash of the oldest method gives the password away too.
They are refused unless the connection is private: by TLS, within this machine, or because the user
says so.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

from pymysql.connections import Connection
from pymysql.constants import CR
from pymysql.err import OperationalError

from cdc.base import egress
from cdc.base.errors import InvalidError

_SHOWING = frozenset({b"mysql_clear_password", b"dialog", b"mysql_old_password"})
OPTION = "insecure-login"
# What a server may have set for everybody: a result without its last rows, or a table without its
# invisible key, which nothing tells; a COMMIT that begins another transaction, or ends the session;
# a statement that is ended or refused each time that it is tried. Each family passes over the
# comments of the other, and each version over those of later ones.
_UNLIMITED = (
    "SET SESSION sql_select_limit = 18446744073709551615, completion_type = 0,"
    " sql_big_selects = 1, sql_safe_updates = 0"
    " /*!50708 , max_execution_time = 0 */ /*M!100101 , max_statement_time = 0 */"
    " /*!80030 , show_gipk_in_create_table_and_information_schema = 1 */"
)


class LoginInsecure(InvalidError):
    """The server asks for the password in a way that others on the network can read."""

    code = "TG:ErrLoginInsecure"


class PrivateLogin(Connection):  # type: ignore[misc]
    """A PyMySQL connection that logs in as above, and has no limits that cut results off.

    Raises :class:`LoginInsecure`.
    """

    def __init__(self, *, insecure_login: bool, **how: Any) -> None:
        self._insecure_login = insecure_login
        self._public_key: bytes | None = None
        super().__init__(**how)

    def connect(self, sock: Any = None) -> None:
        """Connect only where the egress policy lets us; raises HostNotAllowed too.

        The address that was looked at is the one that is taken: a name may lead elsewhere later.
        """
        policy = egress.installed()
        if sock is None and policy.hosts is not None and not self.unix_socket:
            sock = self._connected(policy)
        super().connect(sock)
        self.query(_UNLIMITED)

    def _connected(self, policy: egress.Egress) -> socket.socket:
        error: OSError = ConnectionRefusedError()
        try:
            places = policy.places(self.host, self.port)
        except OSError as unknown:
            places, error = [], unknown
        for _, _, _, _, address in places:
            try:
                sock = socket.create_connection(address[:2], self.connect_timeout)
            except OSError as refused:
                error = refused
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self.host_info = f"socket {self.host}:{self.port}"
            return sock
        what = f"Can't connect to MySQL server on {self.host!r} ({error})"
        raise OperationalError(CR.CR_CONN_HOST_ERROR, what)

    # PyMySQL sets it to what the server sent, and encrypts the password with it in its next step.
    @property
    def server_public_key(self) -> bytes | None:
        """The RSA key for the password."""
        return self._public_key

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        if key is not None:
            self._demand_private("encrypted by a key that came over the network")
        self._public_key = key

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        if plugin_name in _SHOWING:
            self._demand_private(f"as {plugin_name.decode()}")
        return super()._process_auth(plugin_name, auth_packet, handler)

    def _demand_private(self, how: str) -> None:
        if self._secure or self._insecure_login or _is_local(self._sock):
            return
        raise LoginInsecure(
            f"the server asks for the password {how}, without TLS",
            object=f"{self.host}:{self.port}",
            hint=f"use TLS (ssl-mode), or {OPTION}=true in the URI where the network is trusted",
        )


def _is_local(sock: socket.socket) -> bool:
    """Whether both ends are on this machine."""
    if sock.family == socket.AF_UNIX:
        return True
    address = ipaddress.ip_address(sock.getpeername()[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
