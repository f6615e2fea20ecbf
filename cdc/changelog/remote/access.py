"""How a worker reaches the logs of a capture: where they are served, and what proves its right."""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LogAccess:
    """``host`` and ``port`` serve what lies below ``root``, the capture's folder of logs.

    ``token`` opens what is of one upstream; ``log`` is the id of its log. ``certificate`` is the
    SHA-256 (hex) of the certificate that the endpoint shows, "" where it speaks plain HTTP.
    ``cache_bytes`` bounds what a copy of it takes of a host's disk.
    """

    host: str
    port: int
    root: str
    log: str
    token: str = field(repr=False)
    certificate: str = ""
    cache_bytes: int = 2 << 30

    def name(self, path: str) -> str:
        """A path of the capture's, as the endpoint names it."""
        return os.path.relpath(path, self.root)


def token(secret: bytes, upstream: str) -> str:
    """What opens the logs of an upstream: an HMAC-SHA-256, in hex, over its name."""
    return hmac.new(secret, upstream.encode(), hashlib.sha256).hexdigest()
