"""Masking: what may be shown of a URI or of a settings value."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

MASK = "******"
_SECRET_KEY = re.compile(r"(password|passwd|secret|token|credential)", re.IGNORECASE)


def is_secret_key(name: str) -> bool:
    """Whether a setting of this name must never be shown."""
    return _SECRET_KEY.search(name) is not None


def mask_uri(uri: str) -> str:
    """The URI with the password of its authority and every secret parameter masked."""
    parts = urlsplit(uri)
    netloc = parts.netloc
    if "@" in netloc:
        user, _, host = netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        netloc = f"{name}:{MASK}@{host}" if colon else netloc
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode(
        [(k, MASK if is_secret_key(k) else v) for k, v in pairs],
        quote_via=lambda s, *_: quote(s, safe="*/:"),
    )
    return urlunsplit((parts.scheme, netloc, parts.path, query, parts.fragment))
