"""``etcd://[user[:password]@]host:port[,host:port…][/prefix][?ca=…&cert=…&key=…&tls=true]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from cdc.base.errors import InvalidError

_HOST = re.compile(r"(?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})\Z")
_PREFIX = re.compile(r"(/[A-Za-z0-9._-]+)*\Z")
_OPTIONS = ("ca", "cert", "key", "tls", "password-file")


class StoreAddressInvalid(InvalidError):
    """The address of a store cannot be used. It is not repeated: it may hold a password."""

    code = "TG:ErrStoreAddressInvalid"


@dataclass(frozen=True)
class EtcdAddress:
    """Members of one etcd, the prefix of all our keys, and how to log in.

    ``ca``, ``cert`` and ``key`` are PEM files; without ``ca`` the system's authorities count.
    """

    members: tuple[str, ...]
    prefix: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    @classmethod
    def parse(cls, text: str) -> EtcdAddress:
        """Reads it. Raises :class:`StoreAddressInvalid`."""
        try:
            parts = urlsplit(text)
            options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
        except ValueError:
            # An empty query has no fields either.
            options = {}
            if "?" in text:
                raise _invalid("what follows the ? cannot be read") from None
        login, _, hosts = parts.netloc.rpartition("@")
        user, _, password = login.partition(":")
        members = tuple(hosts.split(","))
        if any((m := _HOST.match(h)) is None or int(m["port"]) > 65535 for h in members):
            raise _invalid("it names no members, or one that is not host:port")
        prefix = parts.path.rstrip("/")
        if not _PREFIX.match(prefix):
            raise _invalid("a prefix has letters, digits and . _ - between its slashes")
        if unknown := sorted(set(options) - set(_OPTIONS)):
            raise _invalid(f"{unknown[0]!r} is no option of it; there are {', '.join(_OPTIONS)}")
        if parts.fragment:
            raise _invalid("it has a #, which must be written %23 in a password")
        files = {name: _file(options, name) for name in ("ca", "cert", "key", "password-file")}
        if (files["cert"] is None) != (files["key"] is None):
            raise _invalid("cert and key go together")
        secret = files.pop("password-file")
        if secret is not None:
            password = secret.read_text("utf-8").rstrip("\r\n")
        else:
            password = unquote(password)
        if bool(user) != bool(password):
            raise _invalid("a user needs a password, and a password a user")
        tls = options.get("tls", "true" if any(files.values()) else "false")
        if tls not in ("true", "false"):
            raise _invalid("tls is true or false")
        if tls == "false" and any(files.values()):
            raise _invalid("ca, cert and key are of no use with tls=false")
        return cls(members, prefix, unquote(user), password, tls == "true", **files)


def _file(options: Mapping[str, str], name: str) -> Path | None:
    if name not in options:
        return None
    path = Path(options[name])
    try:
        path.read_bytes()
    except OSError as e:
        raise _invalid(f"the file of {name} cannot be read: {e.strerror}") from None
    return path


def _invalid(message: str) -> StoreAddressInvalid:
    return StoreAddressInvalid(
        message,
        object="store",
        hint="write etcd://host:port,host:port/prefix, as docs/store.md shows",
    )
