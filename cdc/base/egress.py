"""What the configuration of users may reach from a server: hosts, files and variables.

Whoever may name a sink or an upstream has the server connect there, read certificates, and send a
secret along. The *egress policy* of the server says how far that goes. It is one for the process
and for those that it starts, which find it in their environment: Spark's workers connect too.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import os
import re
import socket
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from cdc.base.errors import InvalidError

_NAME = re.compile(r"(\*\.)?[\w-]+(\.[\w-]+)*")
VARIABLE = "TIDEGATE_EGRESS"
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class HostNotAllowed(InvalidError):
    """The server may not connect to this host."""

    code = "TG:ErrHostNotAllowed"


class FileNotAllowed(InvalidError):
    """The server may not use this file or folder for a user."""

    code = "TG:ErrFileNotAllowed"


class Egress(BaseModel):
    """The policy; None lets everything through, an empty list nothing.

    ``hosts``: networks (``10.0.0.0/8``), addresses, and names, also ``*.example.com``. A name does
    not let through what is on this host or link only (loopback, 169.254.0.0/16): who answers for
    the name could else lead us there. Folders hold what is in them, links followed.
    ``secret_variables`` are patterns of names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: tuple[str, ...] | None = None
    certificate_folders: tuple[Path, ...] | None = None
    sink_folders: tuple[Path, ...] | None = None
    secret_folders: tuple[Path, ...] = ()
    secret_variables: tuple[str, ...] = ("TIDEGATE_SECRET_*",)

    @field_validator("hosts")
    @classmethod
    def _readable(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for one in value or ():
            if _network(one) is None and not _NAME.fullmatch(one):
                raise ValueError(f"{one!r} is no network, address or name")
        return value

    @field_validator("certificate_folders", "sink_folders", "secret_folders")
    @classmethod
    def _absolute(cls, value: tuple[Path, ...] | None) -> tuple[Path, ...] | None:
        for folder in value or ():
            if not folder.is_absolute():
                raise ValueError(f"{str(folder)!r} is not absolute")
        return value

    def allows(self, host: str, address: str) -> bool:
        """Whether ``host``, as it was written, may be reached at ``address``."""
        if self.hosts is None:
            return True
        found = _plain(address)
        if any(network is not None and found in network for network in map(_network, self.hosts)):
            return True
        here = found.is_loopback or found.is_link_local or found.is_unspecified
        name = host.strip("[]").rstrip(".").lower()
        names = (one.lower() for one in self.hosts if _network(one) is None)
        return not here and any(
            name == one or (one.startswith("*.") and name.endswith(one[1:])) for one in names
        )

    def places(self, host: str, port: int) -> list[tuple[Any, ...]]:
        """Where ``host`` may be reached, as ``getaddrinfo`` says it.

        Raises HostNotAllowed if that is nowhere, OSError if nobody knows the host.
        """
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        allowed = [place for place in found if self.allows(host, str(place[4][0]))]
        if not allowed:
            # Where a name leads is for nobody to be told who may not go there.
            raise HostNotAllowed(
                "the server may not connect to this host",
                object=f"{host}:{port}",
                hint="whoever runs the server adds it to hosts in [security.egress]",
            )
        return allowed

    def check_certificate(self, *files: str | None) -> None:
        """Raise FileNotAllowed unless each of the files may be read for TLS."""
        for file in files:
            if file:
                _check(file, self.certificate_folders, "certificate-folders")

    def check_sink_folder(self, folder: str) -> None:
        """Raise FileNotAllowed unless a sink may write there."""
        _check(folder, self.sink_folders, "sink-folders")

    def check_secret_file(self, file: str) -> None:
        """Raise FileNotAllowed unless a secret may be read there."""
        _check(file, self.secret_folders, "secret-folders")

    def has_variable(self, name: str) -> bool:
        """Whether a secret may be read from this variable of the environment."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.secret_variables)


def install(policy: Egress) -> None:
    """Make it that of this process, and of those that it starts from now on."""
    os.environ[VARIABLE] = policy.model_dump_json()


def installed() -> Egress:
    """The policy of this process; where none was installed, the default one."""
    return _read(os.environ.get(VARIABLE, "{}"))


@lru_cache(maxsize=4)
def _read(text: str) -> Egress:
    return Egress.model_validate_json(text)


def _network(text: str) -> _Network | None:
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


def _plain(address: str) -> _Address:
    found = ipaddress.ip_address(address.partition("%")[0])
    # A socket of IPv6 leads there too.
    return getattr(found, "ipv4_mapped", None) or found


def _check(file: str, folders: tuple[Path, ...] | None, name: str) -> None:
    if folders is None:
        return
    path = Path(file).resolve()
    if not any(path.is_relative_to(folder.resolve()) for folder in folders):
        raise FileNotAllowed(
            "the server may not use it",
            object=file,
            hint=f"whoever runs the server adds its folder to {name} in [security.egress]",
        )
