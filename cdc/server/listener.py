"""The socket that the API listens on."""

from __future__ import annotations

import socket

from cdc.base.errors import InvalidError


class AddressUnusable(InvalidError):
    """The API cannot listen there."""

    code = "TG:ErrAddressInUse"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; raises :class:`AddressUnusable` before anything else is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(128)
    except OSError as e:
        sock.close()
        raise AddressUnusable(
            e.strerror or str(e), object=f"{host}:{port}", hint="choose another --addr"
        ) from None
    return sock
