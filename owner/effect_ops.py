"""What the effects of a changefeed's tick are in the store."""

from __future__ import annotations

from cdc.coord.contract import Op, Put, StoredKey
from cdc.coord.keys import Keys
from cdc.coord.messages import Assignment, CopyStatus, FeedInfo
from owner.feed_inputs import OwnedFeed
from owner.stored_values import StoredValues
from owner.tick import Effects


def effect_ops(
    keys: Keys,
    stored: StoredValues,
    entry: StoredKey,
    info: FeedInfo,
    feed: OwnedFeed,
    effects: Effects,
) -> tuple[Op, ...]:
    """Puts of all that differs from what is stored; ``entry`` is that of the changefeed's info."""
    ops = list[Op]()
    key = keys.assignment(feed.capture, info.id)
    old = stored.derived(key, Assignment)
    new = effects.assignment
    # Progress alone is no news to the processor: it knows better.
    progress = {"checkpoint_ts": new.checkpoint_ts, "tables": new.tables}
    if old is None or old.model_copy(update=progress) != new:
        ops.append(Put(key, new.model_dump_json().encode()))
    if effects.status is not None:
        ops.append(Put(keys.feed_status(info.id), effects.status.model_dump_json().encode()))
    if effects.ddls is not None and effects.ddls != feed.shown:
        ops.append(Put(keys.feed_ddls(info.id), effects.ddls.model_dump_json().encode()))
    if effects.info is not None:
        ops.append(Put(entry.key, effects.info.model_dump_json().encode()))
    if effects.copied_rows is not None:
        copied = effects.copied_rows.model_dump_json().encode()
        ops.append(Put(keys.copied_rows(info.id), copied))
    for number, copy in effects.copies.items():
        key = keys.copy_status(info.id, number)
        if stored.derived(key, CopyStatus) != copy:
            ops.append(Put(key, copy.model_dump_json().encode()))
    return tuple(ops)
