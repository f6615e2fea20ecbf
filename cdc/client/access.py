"""With what a client shows who it is, and knows the server."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cdc.base import own_token
from cdc.base.errors import InvalidError
from cdc.base.hosts import is_loopback
from cdc.base.http_client import httpx

DEFAULT_SERVER = "http://127.0.0.1:8300"


class TokenUnusable(InvalidError):
    """The token cannot be read, or would be sent where the network can read it along."""

    code = "TG:ErrTokenUnusable"


class TlsFileUnusable(InvalidError):
    """A TLS file of the command line cannot be used."""

    code = "TG:ErrTLSFileUnusable"


@dataclass(frozen=True)
class Access:
    """Where the server is, and with what a client shows who it is; what is None is looked for, or
    not used.

    ``ca`` is a PEM file of the authority that signed the server's certificate. Without ``token``
    and ``token_file`` that of this user's own server is found by itself.
    """

    server: str = DEFAULT_SERVER
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)

    def bearer(self, url: httpx.URL) -> str:
        """The token for a server; empty: none is known. Raises :class:`TokenUnusable`."""
        found = self._found(url)
        if found and url.scheme == "http" and not is_loopback(url.host):
            raise TokenUnusable(
                "the token is not sent over plain HTTP to another machine",
                object=f"{url.scheme}://{url.host}",
                hint="write https:// in --server",
            )
        return found

    def _found(self, url: httpx.URL) -> str:
        if self.token_file is None:
            if self.token:
                return self.token
            port = url.port or (443 if url.scheme == "https" else 80)
            return own_token.find(url.host, port)
        try:
            found = own_token.read(self.token_file)
        except OSError as e:
            raise TokenUnusable(
                e.strerror or str(e), object=str(self.token_file), hint="check --token-file"
            ) from None
        if not found:
            raise TokenUnusable(
                "holds no token",
                object=str(self.token_file),
                hint="give the file token of the server's data directory",
            )
        return found

    def verified(self) -> ssl.SSLContext:
        """How the server's certificate is verified. Raises :class:`TlsFileUnusable`."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
        except OSError as e:
            raise TlsFileUnusable(
                e.strerror or type(e).__name__,
                object=", ".join(str(f) for f in (self.ca, self.cert, self.key) if f),
                hint="give PEM files, a certificate with its key",
            ) from None
        return context
