"""The installation's id: what tells its ledgers from those of any other at the same target."""

from __future__ import annotations

import secrets

from cdc.coord.contract import Put, Store, Unchanged
from cdc.coord.keys import Keys

_BYTES = 8


def installation(store: Store, keys: Keys) -> str:
    """The id that was made with the store; made now if there is none."""
    made = secrets.token_hex(_BYTES)
    if store.txn([Unchanged(keys.installation, 0)], [Put(keys.installation, made.encode())]):
        return made
    entry = store.get(keys.installation)
    assert entry is not None
    return entry.value.decode()
