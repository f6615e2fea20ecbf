"""The other captures of a cluster: which has what, where they are, and how they know our requests.

A request that is forwarded carries a token that says who has sent it to us and what they may do,
signed with a secret that only captures know: it lies in the store, as all passwords do.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import ssl
from contextlib import suppress

from cdc.base.clock import Clock
from cdc.base.errors import TransientError
from cdc.coord.contract import Put, Store, Unchanged
from cdc.coord.keys import Keys
from cdc.coord.messages import CaptureInfo, FeedInfo
from cdc.coord.stored import read, readable
from cdc.server.api_tokens import ApiRole, Caller
from cdc.server.settings import SecuritySettings
from owner import placing

_PREFIX = "tgf."
# Clocks of captures may differ; who learns such a token could else use it for ever.
_VALID_S = 300


class CaptureUnreachable(TransientError):
    """The capture that has what is asked about does not answer."""

    code = "TG:ErrCaptureUnreachable"


class Peers:
    """Of one capture; any thread. All methods may raise StoreFailed."""

    def __init__(
        self, store: Store, keys: Keys, capture: str, security: SecuritySettings, clock: Clock
    ) -> None:
        self._store = store
        self._keys = keys
        self.capture = capture
        self._security = security
        self._clock = clock
        self._kept: bytes | None = None

    # --- who has what -----------------------------------------------------------------------

    def of_upstream(self, name: str) -> str:
        """The capture that an upstream is placed at; "" if there is none."""
        placed, _ = placing.of(self._store, self._keys, name)
        return placed.capture if placed is not None else ""

    def of_feed(self, name: str) -> str:
        """The capture that has a changefeed's upstream; "" if nobody knows."""
        entry = self._store.get(self._keys.feed_info(name))
        known = [info for _, info in readable([entry] if entry else [], FeedInfo)]
        return self.of_upstream(known[0].upstream) if known else ""

    def of_new(self) -> str:
        """The capture that a new upstream is registered at."""
        return placing.best(self._store, self._keys, self.capture)

    def owner(self) -> str:
        """The owner; "" if there is none."""
        entry = self._store.get(self._keys.owner)
        return entry.value.decode() if entry else ""

    # --- reaching them ----------------------------------------------------------------------

    def url(self, capture: str) -> str:
        """Where the API of a capture that lives is; "" if it does not."""
        entry = self._store.get(self._keys.capture(capture))
        if entry is None:
            return ""
        scheme = "http" if self._security.cert_path is None else "https"
        return f"{scheme}://{read(entry, CaptureInfo).address}"

    def tls(self) -> ssl.SSLContext | bool:
        """How another capture is known, by the authority and the certificate of our own API."""
        ours = self._security
        if ours.cert_path is None:
            return False
        context = ssl.create_default_context()
        for file in (ours.ca_path, ours.cert_path):
            # A certificate that another authority has signed is none of an authority.
            with suppress(ssl.SSLError):
                if file is not None:
                    context.load_verify_locations(file)
        context.load_cert_chain(ours.cert_path, ours.key_path)
        return context

    # --- who asks ---------------------------------------------------------------------------

    def token(self, caller: Caller) -> str:
        """What another capture takes for this caller's word."""
        said = {
            "name": caller.name,
            "role": str(caller.role),
            "until": self._clock.now_ms() + _VALID_S * 1000,
        }
        text = base64.urlsafe_b64encode(json.dumps(said).encode()).decode()
        return f"{_PREFIX}{text}.{self._signed(text)}"

    def caller(self, token: str) -> Caller | None:
        """Whose word it is that another capture has forwarded; None if it has not."""
        if not token.startswith(_PREFIX) or not token.isascii():
            return None
        text, _, signed = token.removeprefix(_PREFIX).rpartition(".")
        if not hmac.compare_digest(signed, self._signed(text)):
            return None
        said = json.loads(base64.urlsafe_b64decode(text))
        if self._clock.now_ms() > said["until"]:
            return None
        return Caller(said["name"], ApiRole.of(said["role"]))

    def _signed(self, text: str) -> str:
        return hmac.new(self.secret(), text.encode(), hashlib.sha256).hexdigest()

    def secret(self) -> bytes:
        """What only captures know."""
        if self._kept is None:
            key = self._keys.forwarding
            entry = self._store.get(key)
            if entry is None:
                made = secrets.token_urlsafe(32).encode()
                self._store.txn([Unchanged(key, 0)], [Put(key, made)])
                entry = self._store.get(key)
            assert entry is not None
            self._kept = entry.value
        return self._kept
