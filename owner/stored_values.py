"""What the store holds of all changefeeds at a turn of the owner, as messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from pydantic import BaseModel

from cdc.base.ts import Ts
from cdc.coord.contract import StoredKey
from cdc.coord.keys import Keys
from cdc.coord.messages import (
    CopyOrder,
    CopyStatus,
    DdlDecision,
    DdlEntries,
    FeedInfo,
    FeedStatus,
)
from cdc.coord.stored import StoredValueUnreadable, read
from owner.copies import Orders

M = TypeVar("M", bound=BaseModel)


class StoredValues:
    """One thread's. A value that has not changed since the turn before is not parsed again.

    What raises StoredValueUnreadable says so; else a value that cannot be read is none.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._entries: dict[str, StoredKey] = {}
        self._parsed: dict[str, tuple[int, BaseModel]] = {}
        self._decided: dict[str, list[StoredKey]] = {}
        self._ordered: dict[str, list[StoredKey]] = {}

    def take(self, entries: Iterable[StoredKey]) -> None:
        """A turn begins: this is all that there is."""
        self._entries = {e.key: e for e in entries}
        self._parsed = {k: v for k, v in self._parsed.items() if k in self._entries}
        self._decided = self._by_feed("/changefeed/ddl-decision/")
        self._ordered = self._by_feed("/changefeed/copy-order/")

    @property
    def entries(self) -> Mapping[str, StoredKey]:
        """By key, as they are stored."""
        return self._entries

    @property
    def any_decision(self) -> bool:
        """Whether an operator has decided about a schema change of any changefeed."""
        return bool(self._decided)

    def message(self, entry: StoredKey, kind: type[M]) -> M:
        """A value of this turn. Raises StoredValueUnreadable."""
        known = self._parsed.get(entry.key)
        if known is None or known[0] != entry.mod_revision:
            known = (entry.mod_revision, read(entry, kind))
            self._parsed[entry.key] = known
        assert isinstance(known[1], kind)
        return known[1]

    def derived(self, key: str, kind: type[M]) -> M | None:
        """One that its writer writes anew, so that one that cannot be read may count as none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        try:
            return self.message(entry, kind)
        except StoredValueUnreadable:
            return None

    def info(self, feed: str) -> FeedInfo | None:
        """A changefeed, if it can be read."""
        return self.derived(self._keys.feed_info(feed), FeedInfo)

    def status(self, info: FeedInfo) -> FeedStatus:
        """How far it is; where it begins if nothing is stored. Raises StoredValueUnreadable."""
        entry = self._entries.get(self._keys.feed_status(info.id))
        if entry is None:
            return FeedStatus(checkpoint_ts=info.start_ts)
        return self.message(entry, FeedStatus)

    def ddls(self, feed: str) -> DdlEntries:
        """What is shown of its schema changes. Raises StoredValueUnreadable."""
        entry = self._entries.get(self._keys.feed_ddls(feed))
        return self.message(entry, DdlEntries) if entry else DdlEntries()

    def orders(self, feed: str) -> Orders:
        """Copies that operators want, and how they are. Raises StoredValueUnreadable."""
        asked = [self.message(e, CopyOrder) for e in self._ordered.get(feed, ())]
        keys = [self._keys.copy_status(feed, order.id) for order in asked]
        known = (self.derived(key, CopyStatus) for key in keys)
        return Orders(sorted(asked, key=lambda o: int(o.id)), {s.id: s for s in known if s})

    def decisions(self, feed: str) -> dict[Ts, DdlDecision]:
        """By ts of the schema change what operators decided. Raises StoredValueUnreadable."""
        decided = (self.message(e, DdlDecision) for e in self._decided.get(feed, ()))
        return {d.ts: d for d in decided}

    def _by_feed(self, kind: str) -> dict[str, list[StoredKey]]:
        """What operators have said of some kind, by changefeed."""
        decided: dict[str, list[StoredKey]] = {}
        for key, entry in self._entries.items():
            if kind in key:
                decided.setdefault(key.split("/")[-2], []).append(entry)
        return decided
