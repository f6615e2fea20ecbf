"""Masking: what may be shown of a URI, of a settings value, of SQL, and of any line of text.

What cannot be told apart is not shown: a password with a raw ``/`` makes a URI that every parser
reads, each time as something else, with a part of the password in a place that is no password's.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from cdc.base.redaction import plain
from cdc.base.secret_refs import is_reference

MASK = "******"
HIDDEN = "(not shown: it cannot be read as a URI)"
_SECRET_KEY = re.compile(r"(password|passwd|pwd|secret|token|credential)", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*\Z")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]*\]|[^:\[\]]*)(:\d*)?\Z")
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://([^/?#]*)")

# The password of a URI within a text: to the first @, and on as long as there are more in one word.
# Digits up to something else are the port of a URI that has no user.
_URI_PASSWORD = re.compile(
    r"(\b[a-z][a-z0-9+.\-]*://[^\s:/@'\"]*:)(?!\d{1,5}(?:[/?#,;:\s'\")\]]|$))"
    r"[^\n@]+(?:@[^\s@'\"]*)*(@)",
    re.IGNORECASE,
)
_QUOTED = r"'(?:[^'\\]|\\.|'')*(?:'|$)|\"(?:[^\"\\]|\\.|\"\")*(?:\"|$)"
_NAMED = re.compile(
    r"((?:password|passwd|pwd|secret|token|credential)[\w\-]*['\"]?\s*[=:]\s*)"
    rf"(?:{_QUOTED}|[^\s&'\",;)}}]+)",
    re.IGNORECASE | re.DOTALL,
)
_SQL = re.compile(
    r"(\b(?:connection|\w*password|identified(?:\s+(?:with|via)\s+\S+)?\s+(?:by|as|using))"
    rf"(?:\s+password)?\s*[=(]?\s*)(?:{_QUOTED})",
    re.IGNORECASE | re.DOTALL,
)


def is_secret_key(name: str) -> bool:
    """Whether a setting of this name must never be shown."""
    return _SECRET_KEY.search(name) is not None


def is_doubtful(uri: str, options: Collection[str] = ()) -> bool:
    """Whether a part of a user's password may stand where no parser looks for it.

    That is so if an ``@`` comes behind the place that ends user and host, unless it belongs to the
    value of one of ``options``.
    """
    found = _AUTHORITY.match(uri)
    if found is None:
        return "@" in uri
    rest = uri[found.end() :]
    path, _, query = rest.partition("?")
    if "@" not in rest:
        return False
    pairs = [p.partition("=") for p in query.split("&")]
    return "@" in path or "#" in rest or any("@" in n + v and n not in options for n, _, v in pairs)


def mask_uri(uri: str, options: Collection[str] | None = None) -> str:
    """The URI with the password of its authority and every secret parameter masked.

    A reference to a secret is none itself, and shown. With ``options`` only values of those are
    shown: a misspelled name may be that of a secret.
    """
    try:
        parts = urlsplit(uri)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return HIDDEN
    if is_doubtful(uri, options if options is not None else [n for n, _ in pairs]):
        return HIDDEN
    netloc = parts.netloc
    user, at, host = netloc.rpartition("@")
    if not all(_HOST.match(h) for h in host.split(",")):
        return HIDDEN
    if at:
        name, colon, secret = user.partition(":")
        named = unquote(secret)
        shown = quote(named, safe=":") if is_reference(named) else MASK
        netloc = f"{name}:{shown}@{host}" if colon else netloc
    query = urlencode(
        [(n if _NAME.match(n) else MASK, MASK if _hidden(n, v, options) else v) for n, v in pairs],
        quote_via=lambda s, *_: quote(s, safe="*/:"),
    )
    shown = urlunsplit((parts.scheme, netloc, parts.path, query, ""))
    # urlunsplit leaves the slashes of an empty authority out where it does not know the scheme.
    return shown if "://" in shown or "://" not in uri else shown.replace(":", "://", 1)


def _hidden(name: str, value: str, options: Collection[str] | None) -> bool:
    if options is not None and name not in options:
        return True
    return is_secret_key(name) and not is_reference(value)


def mask_sql(sql: str) -> str:
    """A statement without the passwords that it may have: of users, servers, FEDERATED tables."""
    return _SQL.sub(rf"\1'{MASK}'", sql)


def mask_text(text: str) -> str:
    """Any text without passwords of URIs, values of secret names, passwords in SQL, and marks.

    The last resort for what was put together by others; what we write ourselves has none.
    """
    masked = _URI_PASSWORD.sub(rf"\1{MASK}\2", plain(text))
    return mask_sql(_NAMED.sub(rf"\1{MASK}", masked))


def with_password(uri: str, password: str) -> str:
    """The URI with a password that was given beside it: of its user, or as ``sasl-password``.

    Raises ValueError if the URI cannot be read, or has a password already.
    """
    if is_doubtful(uri):
        raise ValueError("the URI cannot be read")
    parts = urlsplit(uri)
    if parts.scheme.startswith("kafka"):
        if "sasl-password" in dict(parse_qsl(parts.query, keep_blank_values=True)):
            raise ValueError("the URI has a password already")
        query = f"{parts.query}&" if parts.query else ""
        return urlunsplit(parts._replace(query=f"{query}sasl-password={quote(password, safe='')}"))
    user, at, host = parts.netloc.rpartition("@")
    if ":" in user:
        raise ValueError("the URI has a password already")
    if not at:
        raise ValueError("the URI names no user before the host")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))
