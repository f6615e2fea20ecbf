"""Who a client is: the greeting, TLS, and the password, by the plugin that its family knows.

Both plugins prove that the client knows the password without sending it. Since the password is
known here, ``caching_sha2_password`` always ends on its fast way, which needs neither TLS nor RSA.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html
https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html
"""

from __future__ import annotations

import hashlib
import hmac
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import SecretStr

from cdc.binlog.events import Dialect
from sink.binlog.serve.packets import AUTOCOMMIT, UTF8MB4, PacketStream, PeerGone

_CONNECT_WITH_DB, _SSL, _SECURE, _PLUGIN_AUTH = 8, 0x800, 0x8000, 0x80000
# Long password and flags, database at connect, 4.1, transactions, long passwords' form, plugins.
_CAPABILITIES = 1 | 4 | _CONNECT_WITH_DB | 0x200 | 0x2000 | _SECURE | _PLUGIN_AUTH
_NONCE_BYTES = 20
# Capabilities, largest packet, character set and filler, which a request for TLS ends behind.
_FIXED_BYTES = 32
_SWITCH, _MORE, _FAST = b"\xfe", b"\x01", b"\x03"
_ACCESS_DENIED, _NO_TLS = 1045, 3159


@dataclass(frozen=True, slots=True)
class ReplicaAccess:
    """Who may read. With ``tls``, the server's context, nobody is let in without it."""

    user: str
    password: SecretStr
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class _Plugin:
    name: bytes
    scrambled: Callable[[str, bytes], bytes]
    proven: bytes = b""


@dataclass(frozen=True, slots=True)
class _Answer:
    user: bytes
    proof: bytes
    plugin: bytes


def login(stream: PacketStream, version: str, access: ReplicaAccess) -> bool:
    """Greet as a server of this version, and say whether the client may read.

    Raises PeerGone, and OSError where TLS cannot be agreed on.
    """
    plugin = _PLUGINS[Dialect.of(version)]
    nonce = bytes(1 + byte % 127 for byte in os.urandom(_NONCE_BYTES))
    stream.send(_greeting(version, plugin, nonce, tls=access.tls is not None))
    first = stream.read()
    if access.tls is not None:
        if not int.from_bytes(first[:4], "little") & _SSL:
            stream.error(_NO_TLS, "this server is reached by TLS only")
            return False
        stream.secure(access.tls)
        first = stream.read()
    answer = _answer(first)
    proof = answer.proof
    if answer.plugin != plugin.name:
        stream.send(_SWITCH + plugin.name + b"\0" + nonce + b"\0")
        proof = stream.read()
    wanted = plugin.scrambled(access.password.get_secret_value(), nonce)
    # Both are compared, so that time says nothing of which was wrong.
    user = access.user.encode()
    right = hmac.compare_digest(proof, wanted) & hmac.compare_digest(answer.user, user)
    if not right:
        stream.error(_ACCESS_DENIED, "Access denied", "28000")
        return False
    if plugin.proven:
        stream.send(plugin.proven)
    stream.ok()
    return True


def _greeting(version: str, plugin: _Plugin, nonce: bytes, *, tls: bool) -> bytes:
    able = (_CAPABILITIES | (_SSL if tls else 0)).to_bytes(4, "little")
    return (
        b"\x0a" + version.encode() + b"\0" + (1).to_bytes(4, "little") + nonce[:8] + b"\0"
        + able[:2] + bytes([UTF8MB4]) + AUTOCOMMIT.to_bytes(2, "little") + able[2:]
        + bytes([_NONCE_BYTES + 1]) + bytes(10) + nonce[8:] + b"\0" + plugin.name + b"\0"
    )  # fmt: skip


def _answer(data: bytes) -> _Answer:
    able = int.from_bytes(data[:4], "little")
    user, ended, rest = data[_FIXED_BYTES:].partition(b"\0")
    if not ended or not rest or not able & _SECURE:
        raise PeerGone
    proof, rest = rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
    if able & _CONNECT_WITH_DB:
        rest = rest.partition(b"\0")[2]
    plugin = rest.partition(b"\0")[0] if able & _PLUGIN_AUTH else b""
    return _Answer(user, proof, plugin)


def _native(password: str, nonce: bytes) -> bytes:
    """``mysql_native_password`` (the protocol's own use of SHA-1)."""
    first = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    second = hashlib.sha1(first, usedforsecurity=False).digest()
    mask = hashlib.sha1(nonce + second, usedforsecurity=False).digest()
    return bytes(a ^ b for a, b in zip(first, mask, strict=True))


def _sha2(password: str, nonce: bytes) -> bytes:
    """``caching_sha2_password``."""
    first = hashlib.sha256(password.encode()).digest()
    mask = hashlib.sha256(hashlib.sha256(first).digest() + nonce).digest()
    return bytes(a ^ b for a, b in zip(first, mask, strict=True))


# MySQL 9 has no other, and MariaDB's replicas do not load it unless they are told to.
_PLUGINS = {
    Dialect.MARIADB: _Plugin(b"mysql_native_password", _native),
    Dialect.MYSQL: _Plugin(b"caching_sha2_password", _sha2, _MORE + _FAST),
}
