"""What captures hand to each other that nobody else may read, forge or send again.

AES-256-GCM (NIST SP 800-38D) under a key that follows from the captures' own secret, so it holds
where the API speaks plain HTTP, too: what tasks need has passwords of sinks in it. The nonce is
random, and its 96 bits are enough for some 2^32 messages of a cluster. What is authenticated beside
the message says whom it is for.
"""

from __future__ import annotations

import hashlib
import hmac
import pickle
import secrets
import threading
from typing import Any

from cdc.base.clock import Clock
from cdc.base.errors import InvalidError

# Clocks of captures may differ; behind that nobody remembers a message.
_VALID_MS = 120_000
_NONCE = 12


class SealBroken(InvalidError):
    """A message is not from a capture of this cluster, for another one, too old, or sent again."""

    code = "TG:ErrSealBroken"


class Seal:
    """Seals and opens messages of one cluster; any thread."""

    def __init__(self, secret: bytes, clock: Clock) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(hmac.new(secret, b"between captures", hashlib.sha256).digest())
        self._clock = clock
        self._guard = threading.Lock()
        # Messages that were opened, and until when they would still be taken.
        self._opened: dict[bytes, int] = {}

    def seal(self, value: Any, to: str) -> bytes:
        """A message for whoever opens it as ``to``."""
        nonce = secrets.token_bytes(_NONCE)
        body = pickle.dumps((self._clock.now_ms() + _VALID_MS, value))
        return nonce + self._cipher.encrypt(nonce, body, to.encode())

    def open(self, message: bytes, to: str) -> Any:
        """What was sealed for ``to``, once. Raises SealBroken, and then has run nothing of it."""
        from cryptography.exceptions import InvalidTag

        nonce, body = message[:_NONCE], message[_NONCE:]
        try:
            # Nothing is unpickled that was not sealed by who knows the secret.
            until, value = pickle.loads(self._cipher.decrypt(nonce, body, to.encode()))
        except (InvalidTag, ValueError) as error:
            raise _broken("is not from a capture of this cluster for this one") from error
        now = self._clock.now_ms()
        if now > until:
            raise _broken("is too old; compare the clocks of the hosts")
        with self._guard:
            self._opened = {n: end for n, end in self._opened.items() if end >= now}
            if nonce in self._opened:
                raise _broken("was sent before")
            self._opened[nonce] = until
        return value


def _broken(why: str) -> SealBroken:
    return SealBroken(
        f"the message {why}",
        object="a message of another capture",
        hint="captures of one cluster share a store, and clocks within two minutes",
    )
