"""The socket that the API listens on."""

from __future__ import annotations

import ipaddress
import socket

from cdc.base.errors import InvalidError


class AddressUnusable(InvalidError):
    """The API cannot listen there."""

    code = "TG:ErrAddressInUse"


class AddressNotPrivate(InvalidError):
    """The network could read along what is asked of the API there, the token included."""

    code = "TG:ErrAddressNotPrivate"


def bind(host: str, port: int, *, plain: bool) -> socket.socket:
    """A listening socket; raises before anything else is started.

    :class:`AddressUnusable`, or with ``plain`` (no TLS) :class:`AddressNotPrivate` for an address
    that is not a loopback one.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        if plain and not ipaddress.ip_address(sock.getsockname()[0]).is_loopback:
            sock.close()
            raise AddressNotPrivate(
                "listens beyond this machine, and that needs TLS",
                object=f"{host}:{port}",
                hint="give --cert and --key, or an --addr of this machine alone: 127.0.0.1:8300",
            )
        sock.listen(128)
    except OSError as e:
        sock.close()
        raise AddressUnusable(
            e.strerror or str(e), object=f"{host}:{port}", hint="choose another --addr"
        ) from None
    return sock
