"""Tables that a changefeed's target does not have, made when their rows are about to come."""

from __future__ import annotations

from collections.abc import Callable

from cdc.base.ts import Ts
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import CopiedRows, FeedInfo
from cdc.schema.snapshot import Schema
from owner.eligibility import tables_to_deliver
from sink.contract import RECOVERY_BITS
from sink.dispatch.read import read_dispatchers
from sink.dispatch.shards import joined_definitions
from sink.dispatch.target import TargetRouter
from sink.open import sink_of

# Of smaller tables there may be thousands, and each would need two statements more.
LARGE_ROWS = 50_000


def make(
    info: FeedInfo, schema_at: Callable[[Ts], Schema], copied: Callable[[], CopiedRows | None]
) -> None:
    """Make those of a changefeed whose copied rows are not all delivered, as they were then.

    Of tables that are one at the target and differ, their join is made. Large ones get their
    indexes behind their rows, when this is called then; ``copied`` tells how many each has.

    ``schema_at`` gives the upstream's schema for rows at a ts. Nothing happens unless the
    changefeed is configured so. Raises what ``sink.new_tables.NewTables`` raises.
    """
    config = FeedConfig.model_validate(info.config)
    if info.indexes_due and info.rows_delivered:
        new = sink_of(info.sink_uri, config).new_tables()
        new.complete(info.ledger_id, info.epoch << RECOVERY_BITS, info.snapshot_ts)
    if not config.snapshot.create_tables:
        return
    beginning = bool(info.snapshot_ts) and (not info.rows_delivered or info.lacks_rows)
    piece = info.piece
    if not beginning and piece is None:
        return
    ts = info.snapshot_ts if piece is None else piece.ts
    schema = schema_at(ts)
    found = [
        schema.definition((table.schema, table.name))
        for table in tables_to_deliver(schema, config)
        if piece is None or table.full_name.lower() in piece.tables
    ]
    if config.by_name:
        dispatchers = read_dispatchers(config.sink.get("dispatchers", ()))
        sensitive = config.case_sensitive
        names = TargetRouter.of(dispatchers, case_sensitive=sensitive, merging=True)
        found = joined_definitions(names, found)
    sink = sink_of(info.sink_uri, config)
    large = _large(copied()) if info.indexes_due and not info.rows_delivered else frozenset()
    epoch = info.epoch << RECOVERY_BITS
    sink.new_tables().make(info.ledger_id, epoch, found, schema.session, ts, large)


def _large(copied: CopiedRows | None) -> frozenset[str]:
    tables = copied.tables if copied is not None else ()
    return frozenset(table.name for table in tables if table.rows >= LARGE_ROWS)
