"""What must hold for a write of a changefeed to count: who may decide about it, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cdc.base.errors import FencedError
from cdc.coord.contract import Held, Store
from cdc.coord.keys import Keys


class OwnershipLost(FencedError):
    """Another capture has become the owner."""

    code = "TG:ErrOwnershipLost"


@dataclass(frozen=True, slots=True)
class HeldNow:
    """What one capture holds at a moment.

    ``owner``: the owner's key, None if another capture is the owner. ``upstreams``: keys of those
    that it has, by name; None where nothing is placed, and the owner decides about all.
    """

    owner: Held | None
    upstreams: Mapping[str, Held] | None = None

    def of(self, upstream: str) -> Held | None:
        """What guards the changefeeds of an upstream here, None if another capture has it.

        Those whose upstream cannot be told ("") are the owner's.
        """
        if self.upstreams is None or not upstream:
            return self.owner
        return self.upstreams.get(upstream)


class Guards(Protocol):
    """Of one capture."""

    def now(self) -> HeldNow:
        """What it holds. Raises OwnershipLost where it decides nothing any more.

        What is read of the store behind this call has all that was written by whoever held it
        before.
        """


class OwnersGuards:
    """Where nothing is placed: the owner decides about all.

    ``token`` is the create revision of the owner's key, so an owner that was replaced without
    noticing changes nothing any more.
    """

    def __init__(self, store: Store, keys: Keys, token: int) -> None:
        self._store = store
        self._held = Held(keys.owner, token)

    def now(self) -> HeldNow:
        """The owner's key alone. Raises OwnershipLost."""
        entry = self._store.get(self._held.key)
        if entry is None or entry.create_revision != self._held.create_revision:
            raise OwnershipLost("another capture is the owner now", object="owner")
        return HeldNow(self._held)
