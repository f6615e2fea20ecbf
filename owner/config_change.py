"""A changefeed that runs takes another configuration at one ts of all of its tables: pure steps.

A ts T is *aimed* at, above all that the log has resolved, and is a barrier of the changefeed from
then on. Whether it lies above all that was dispatched, the processor says: its report names the
barrier that it goes by and the furthest place that any destination has, after the sink was taken
over. If that lies above T, another T is aimed at, so no timing is trusted. When all stands at T,
the change is *due*: progress T and the new configuration under a new epoch are one transaction of
the store, so a crash leaves either of them.
"""

from __future__ import annotations

from collections.abc import Collection

from cdc.base.errors import InvalidError
from cdc.base.ts import Ts, compose, physical_ms
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import (
    ConfigChange,
    DdlEntries,
    DdlState,
    FeedInfo,
    FeedStatus,
    Report,
)
from owner.stands import Stands
from sink.dispatch.read import read_dispatchers

# How far above the log a barrier lies, so that it nearly always comes to the processor in time.
_AHEAD_MS = 1000
_HELD = frozenset({DdlState.HELD, DdlState.FAILED})


class ConfigChangeRefused(InvalidError):
    """A changefeed cannot take another configuration while it runs."""

    code = "TG:ErrConfigChangeRefused"


def check_changeable(
    info: FeedInfo,
    status: FeedStatus,
    ddls: DdlEntries,
    after: ConfigChange,
    *,
    copies_rows: bool,
) -> None:
    """Raises ConfigChangeRefused where tables could not come to one ts, or nothing could be said
    of it: a table has stopped or waits for an operator, rows are copied, shard groups would have
    other tables, or the rows would go to another place.
    """
    why = ""
    held = [d for d in ddls.pending if d.state in _HELD]
    config, new = (FeedConfig.model_validate(c) for c in (info.config, after.config))
    if (config.merging or new.merging) and _grouping(config) != _grouping(new):
        why = "tables of shard groups, and where they are one, change while it is paused"
    elif status.stopped_tables:
        why = f"{status.stopped_tables[0].table} has stopped"
    elif held:
        why = f"the schema change at ts {held[0].ts} is {held[0].state}"
    elif info.copies or info.piece is not None or copies_rows:
        why = "rows that were there before are copied"
    elif _place(info.sink_uri) != _place(after.sink_uri):
        why = "only options of a sink change while it runs, not where it is"
    if why:
        raise ConfigChangeRefused(
            why, object=f"changefeed {info.id}", hint="pause the changefeed first"
        )


def _grouping(config: FeedConfig) -> tuple[object, ...]:
    """What decides which tables are one at the target."""
    routes = tuple(
        (rule.matcher, rule.target_schema, rule.target_table, rule.extracts)
        for rule in read_dispatchers(config.sink.get("dispatchers", ()))
        if rule.routes
    )
    kept = ("shard_mode", "case_sensitive", "force_replicate", "ignore_ineligible_table")
    tools = ("online_ddl", "shadow_table_rules", "trash_table_rules")
    return (routes, config.filter.rules, *(getattr(config, name) for name in kept + tools))


def _place(sink_uri: str) -> str:
    return sink_uri.partition("?")[0]


def aimed(
    info: FeedInfo, report: Report | None, resolved_ts: Ts, grouped: Collection[Ts] = ()
) -> FeedInfo:
    """With a ts for its change, if it has one that has none, or one that was passed.

    ``report`` is of its epoch; ``resolved_ts`` 0 if the log could not be asked. ``grouped`` are
    schema changes of shard groups that are not done. While one lies at or below the ts there is
    none: it waits for other tables, which may come to theirs above it only.
    """
    change = info.change
    if change is None or not resolved_ts:
        return info
    if any(not change.ts or ts <= change.ts for ts in grouped):
        return info.model_copy(update={"change": change.model_copy(update={"ts": 0})})
    furthest = max(report.checkpoint_ts, report.furthest_ts) if report else 0
    if change.ts and furthest <= change.ts:
        return info
    above = compose(physical_ms(max(furthest, resolved_ts)) + _AHEAD_MS)
    return info.model_copy(update={"change": change.model_copy(update={"ts": above})})


def due(info: FeedInfo, at: Stands) -> bool:
    """Whether all that the changefeed delivers stands at the ts of its change, and stays there."""
    return info.change is not None and bool(info.change.ts) and at.all_at(info.change.ts)


def changed(info: FeedInfo, epoch: int) -> FeedInfo:
    """The changefeed from the ts of its change on."""
    assert info.change is not None
    taken = {"config": info.change.config, "sink_uri": info.change.sink_uri}
    return info.model_copy(update={**taken, "change": None, "epoch": epoch})
