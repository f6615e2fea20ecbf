"""Tokens of the API that are made for others than the server's own user, each with a role.

A token is ``tgt_<name>_<secret>``: its name leads to what the store has of it, the secret is 256
random bits, and the store has only their digest (no slow hash: there is nothing to guess). Every
request looks in the store, so a token that is revoked is of no use at once, at all captures.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from enum import IntEnum

from cdc.base.clock import Clock
from cdc.base.errors import InvalidError
from cdc.coord.contract import Delete, Put, Store, Unchanged
from cdc.coord.keys import Keys
from cdc.coord.messages import ApiToken
from cdc.coord.stored import StoredValueUnreadable, read, readable

NAME = r"[A-Za-z0-9][A-Za-z0-9\-]{0,62}"
_PREFIX = "tgt_"
_BYTES = 32
_TOKEN = re.compile(rf"{_PREFIX}({NAME})_[A-Za-z0-9_\-]{{43}}\Z")
_NOBODY = "0" * 64


class ApiRole(IntEnum):
    """Who may do what; each may do what those below it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, text: str) -> ApiRole:
        """The role of this name, lower case. Raises ValueError."""
        if text != text.lower() or text.upper() not in cls.__members__:
            raise ValueError(f"there is no role {text!r}")
        return cls[text.upper()]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request: the name of the token, never the token itself, and its role."""

    name: str
    role: ApiRole


OWN = Caller("(data directory)", ApiRole.ADMIN)
"""The server's user, with the token of the data directory; no other token can have this name."""


class TokenExists(InvalidError):
    """There is a token of this name."""

    code = "TG:ErrTokenAlreadyExists"


class TokenNotFound(InvalidError):
    """There is no token of this name."""

    code = "TG:ErrTokenNotExists"


class ApiTokens:
    """The tokens of a cluster; any capture, any thread. All methods may raise StoreFailed."""

    def __init__(self, store: Store, keys: Keys, clock: Clock) -> None:
        self._store = store
        self._keys = keys
        self._clock = clock

    def create(
        self, name: str, role: ApiRole, expires_s: int | None, by: str
    ) -> tuple[str, ApiToken]:
        """The token, which nothing shows again, and what is kept of it; ``expires_s`` from now.

        Raises :class:`TokenExists`, for one that has expired too.
        """
        token = f"{_PREFIX}{name}_{secrets.token_urlsafe(_BYTES)}"
        now_ms = self._clock.now_ms()
        expires_ms = 0 if expires_s is None else now_ms + expires_s * 1000
        kept = ApiToken(
            name=name,
            role=str(role),
            digest=_digest(token),
            created_ms=now_ms,
            created_by=by,
            expires_ms=expires_ms,
        )
        key = self._keys.token(name)
        if not self._store.txn([Unchanged(key, 0)], [Put(key, kept.model_dump_json().encode())]):
            raise TokenExists(
                "exists already", object=f"token {name}", hint="revoke it, or choose another name"
            )
        return token, kept

    def all(self) -> list[ApiToken]:
        """All that can be read, by name; those that have expired too."""
        entries = self._store.range(self._keys.token_prefix)[1]
        return [token for _, token in readable(entries, ApiToken)]

    def revoke(self, name: str) -> None:
        """From now on it is of no use. Raises :class:`TokenNotFound`."""
        key = self._keys.token(name)
        # One whose value cannot be read is revoked by its key all the same.
        entry = self._store.get(key)
        if entry is None:
            raise TokenNotFound(
                "there is no such token",
                object=f"token {name}",
                hint="cdc cli token list shows those that there are",
            )
        self._store.txn([Unchanged(key, entry.mod_revision)], [Delete(key)])

    def expired(self, token: ApiToken) -> bool:
        """Whether its time is over."""
        return 0 < token.expires_ms <= self._clock.now_ms()

    def caller(self, token: str) -> Caller | None:
        """Whose token it is; None for one that is unknown, revoked or expired, or unreadable."""
        found = _TOKEN.match(token)
        if found is None:
            return None
        entry = self._store.get(self._keys.token(found[1]))
        try:
            kept = read(entry, ApiToken) if entry else None
            role = ApiRole.of(kept.role) if kept else ApiRole.VIEWER
        except (StoredValueUnreadable, ValueError):
            return None
        # Compared for a name that nobody has too, so that the time does not tell names.
        right = hmac.compare_digest(_digest(token), kept.digest if kept else _NOBODY)
        if kept is None or not right or self.expired(kept):
            return None
        return Caller(kept.name, role)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
