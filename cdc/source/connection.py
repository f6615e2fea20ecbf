"""Connections to an upstream: PyMySQL for handshake, authentication and queries."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

import pymysql
import pymysql.cursors

from cdc.base import secret_refs
from cdc.base.secrets import is_doubtful
from cdc.coord.messages import UpstreamInfo
from cdc.source import login, tls
from cdc.source.errors import UpstreamGone, UpstreamNotReady, UpstreamSeveral, UpstreamUriInvalid
from cdc.source.settings import SourceSettings

_URI_HINT = "write mysql://user:password@host:3306"
_UNREADABLE = "the URI does not parse; / ? # @ in a user or password are written %2F %3F %23 %40"
_ACCESS_DENIED = frozenset({1044, 1045, 1227, 1142, 1698, 1251, 2049, 2061})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The parts of an upstream's URI; never printed, as it holds the password."""

    host: str
    port: int
    user: str
    password: str
    ssl_mode: tls.SslMode | None
    insecure_login: bool = False

    def __repr__(self) -> str:
        return f"Endpoint({self.host}:{self.port})"


def parse_uri(uri: str) -> Endpoint:
    """``mysql://user:password@host:port[?ssl-mode=…&insecure-login=true]``.

    Raises :class:`UpstreamUriInvalid` for anything else.
    """
    try:
        parts = urlsplit(uri)
        port = parts.port or 3306
    except ValueError:
        raise UpstreamUriInvalid(_UNREADABLE, hint=_URI_HINT) from None
    if is_doubtful(uri):
        raise UpstreamUriInvalid(_UNREADABLE, hint=_URI_HINT)
    if parts.scheme not in ("mysql", "mariadb") or not parts.hostname or not parts.username:
        raise UpstreamUriInvalid("the URI names no scheme, user or host", hint=_URI_HINT)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    mode = options.pop("ssl-mode", "").lower()
    insecure = options.pop(login.OPTION, "false").lower()
    if options:
        what = ", ".join(sorted(options))
        raise UpstreamUriInvalid(f"unknown part of the URI: {what}", hint=_URI_HINT)
    if parts.path not in ("", "/"):
        raise UpstreamUriInvalid("the URI names a schema, which has no use", hint=_URI_HINT)
    if mode and mode not in tuple(tls.SslMode):
        names = ", ".join(tls.SslMode)
        raise UpstreamUriInvalid(f"ssl-mode {mode!r} is not known", hint=f"one of {names}")
    if insecure not in ("true", "false"):
        raise UpstreamUriInvalid(f"{login.OPTION} is true or false", hint=_URI_HINT)
    asked = tls.SslMode(mode) if mode else None
    user, password = unquote(parts.username), unquote(parts.password or "")
    return Endpoint(parts.hostname, port, user, password, asked, insecure == "true")


def with_login(uri: str, user: str | None, password: str | None) -> str:
    """The URI with another user or another password; None stays, an empty password goes.

    Raises :class:`UpstreamUriInvalid`.
    """
    known, parts = parse_uri(uri), urlsplit(uri)
    name = known.user if user is None else user
    secret = known.password if password is None else password
    login = quote(name, safe="") + (f":{quote(secret, safe='')}" if secret else "")
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{login}@{host}"))


def open_connection(info: UpstreamInfo, settings: SourceSettings) -> Any:
    """A PyMySQL connection.

    Raises UpstreamGone, UpstreamNotReady, LoginInsecure, SecretUnusable, or UpstreamSeveral for one
    of nodes.
    """
    name = f"upstream {info.name}"
    if info.nodes:
        raise UpstreamSeveral(
            f"it has {len(info.nodes)} nodes, and this reads one server",
            object=name,
            hint="each of its nodes is reached by itself",
        )
    endpoint = parse_uri(info.uri)
    try:
        context = tls.context(endpoint.ssl_mode, info.ca, info.cert, info.key)
        return login.PrivateLogin(
            insecure_login=endpoint.insecure_login,
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=secret_refs.resolved(endpoint.password),
            ssl=context,
            ssl_disabled=context is None,
            connect_timeout=max(1, round(settings.connect_timeout_s)),
            read_timeout=max(30, round(settings.silence_s)),
            write_timeout=max(30, round(settings.silence_s)),
            autocommit=True,
            charset="utf8mb4",
            program_name="tidegate",
        )
    except ssl.SSLError as error:
        raise UpstreamNotReady(
            f"TLS failed: {error.reason}", object=name, hint="check ca, cert and key"
        ) from None
    except OSError as error:
        raise UpstreamNotReady(
            f"a TLS file cannot be read: {error.strerror}", object=name
        ) from None
    except pymysql.err.MySQLError as error:
        raise query_error(error, name) from None


def query_error(error: Any, name: str) -> UpstreamGone | UpstreamNotReady:
    """Our error for one of PyMySQL's, by the server's error number."""
    number = error.args[0] if error.args else 0
    text = str(error.args[1]) if len(error.args) > 1 else type(error).__name__
    if number in _ACCESS_DENIED:
        return UpstreamNotReady(text, object=name, hint="check user, password and grants")
    if "CERTIFICATE" in text or "SSL" in text.upper():
        return UpstreamNotReady(text, object=name, hint="check ca, cert and key")
    return UpstreamGone(f"{text} ({number})", object=name, hint="see whether the server runs")


def rows(connection: Any, sql: str, *args: Any) -> list[dict[str, Any]]:
    """Result of a statement as dicts with lower-case keys. PyMySQL's errors pass through."""
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(sql, args or None)
        return [{k.lower(): v for k, v in row.items()} for row in cursor.fetchall()]


def try_rows(connection: Any, *statements: str) -> list[dict[str, Any]] | None:
    """Result of the first statement that this server understands, ``None`` if none does."""
    for sql in statements:
        try:
            return rows(connection, sql)
        except (pymysql.err.ProgrammingError, pymysql.err.OperationalError) as error:
            if error.args[0] in (2006, 2013):
                raise
        except pymysql.err.InternalError as error:
            if error.args[0] in (2006, 2013):
                raise
    return None


def variables(connection: Any) -> dict[str, str]:
    """All global variables by lower-case name."""
    found = rows(connection, "SHOW GLOBAL VARIABLES")
    return {str(r["variable_name"]).lower(): str(r["value"]) for r in found}
