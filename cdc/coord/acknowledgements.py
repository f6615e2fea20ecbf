"""What the store has of acknowledgements, and whether a ledger still has all of it."""

from __future__ import annotations

from collections.abc import Mapping

from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.coord import stored
from cdc.coord.contract import Store
from cdc.coord.keys import Keys
from cdc.coord.messages import Acknowledgements

_NOTHING = Position(-1)


def read(store: Store, keys: Keys, feed: FeedId) -> Acknowledgements:
    """What the store has of this incarnation; raises StoredValueUnreadable."""
    entry = store.get(keys.acknowledged(feed.name))
    if entry is not None:
        known = stored.read(entry, Acknowledgements)
        if known.incarnation == feed.incarnation:
            return known
    return Acknowledgements(incarnation=feed.incarnation)


def behind(
    known: Mapping[tuple[str, int], Position], ledger: Mapping[tuple[str, int], Position]
) -> list[tuple[str, int]]:
    """Destinations whose ledger entry is gone, or stands below what was acknowledged."""
    return sorted(d for d, at in known.items() if ledger.get(d, _NOTHING) < at)
