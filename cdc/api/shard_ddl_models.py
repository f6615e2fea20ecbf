"""Bodies about shard groups whose tables come to a schema change."""

from __future__ import annotations

from pydantic import BaseModel

from cdc.api.changefeed_models import FeedError
from cdc.api.ddl_models import shown_time
from cdc.base.secrets import mask_sql
from cdc.base.ts import to_text
from cdc.coord.messages import DdlEntries, DdlEntry, DdlState, ShardStand

# Of several states that of a group is the first of these.
_FIRST = (DdlState.FAILED, DdlState.HELD, DdlState.EXECUTING, DdlState.WAITING)


class ShardDdlOut(BaseModel):
    """The next schema change of one table. ``came``: all before it is delivered; ``later``: so many
    more of the table are known."""

    table: str
    ts: int
    time: str
    sql: str
    kind: str
    state: DdlState
    came: bool
    since: str
    later: int
    error: FeedError | None

    @classmethod
    def of(cls, entry: DdlEntry, stand: ShardStand, later: int) -> ShardDdlOut:
        """From the store's messages."""
        return cls(
            table=stand.table,
            ts=entry.ts,
            time=to_text(entry.ts),
            sql=mask_sql(entry.sql),
            kind=entry.kind,
            state=entry.state,
            came=stand.came,
            since=shown_time(entry.since_ms),
            later=later,
            error=FeedError.of(entry.error),
        )


class ShardGroupOut(BaseModel):
    """A shard group, by its name at the target: the next change of each table side by side, and the
    tables that are ``missing``, as they have come to none."""

    target: str
    state: DdlState
    since: str
    changes: list[ShardDdlOut]
    missing: list[str]


class ShardDdlPage(BaseModel):
    """``GET /changefeeds/{id}/shard-ddls``."""

    total: int
    items: list[ShardGroupOut]


def groups_of(known: DdlEntries) -> list[ShardGroupOut]:
    """The groups of which schema changes are pending, by name."""
    found: dict[str, dict[str, list[DdlEntry]]] = {}
    for entry in known.pending:
        stand = known.shard_stands.get(entry.ts)
        if stand is not None:
            found.setdefault(stand.group, {}).setdefault(stand.table, []).append(entry)
    return [_group(name, found[name], known) for name in sorted(found)]


def _group(name: str, tables: dict[str, list[DdlEntry]], known: DdlEntries) -> ShardGroupOut:
    heads = sorted(tables.values(), key=lambda of_table: of_table[0].ts)
    states = {first.state for first, *_ in heads}
    return ShardGroupOut(
        target=name,
        state=next(state for state in _FIRST if state in states),
        since=shown_time(min(first.since_ms for first, *_ in heads)),
        changes=[
            ShardDdlOut.of(first, known.shard_stands[first.ts], len(later))
            for first, *later in heads
        ],
        missing=known.shard_missing.get(name, []),
    )
