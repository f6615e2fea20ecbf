"""What is asked of TLS to a server of the MySQL family, and the context that asks for it."""

from __future__ import annotations

import ssl
from enum import StrEnum

from cdc.base import egress


class SslMode(StrEnum):
    """What is asked of TLS, as MySQL's own clients name it."""

    DISABLED = "disabled"
    REQUIRED = "required"
    VERIFY_CA = "verify_ca"
    VERIFY_IDENTITY = "verify_identity"


def context(
    mode: SslMode | None, ca: str | None, cert: str | None, key: str | None
) -> ssl.SSLContext | None:
    """A client's context, ``None`` for plain text. Raises FileNotAllowed, OSError or
    ssl.SSLError for its files.

    With a CA or a certificate of ours the default is to verify certificate and host name. Without a
    CA the system's authorities verify. ``required`` encrypts; it verifies the certificate where a
    CA is named, as nobody names one to have it ignored.
    """
    if mode is None:
        mode = SslMode.VERIFY_IDENTITY if ca or cert else SslMode.DISABLED
    if mode is SslMode.DISABLED:
        return None
    egress.installed().check_certificate(ca, cert, key)
    made = ssl.create_default_context(cafile=ca)
    made.check_hostname = mode is SslMode.VERIFY_IDENTITY
    if mode is SslMode.REQUIRED and not ca:
        made.verify_mode = ssl.CERT_NONE
    if cert:
        made.load_cert_chain(cert, key)
    return made
