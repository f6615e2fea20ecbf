"""Tables of a changefeed that an operator moves: which capture's workers are to deliver them.

It is a wish and no lease: whoever plans a window goes by it while that capture takes tasks, and
gives them to others when it does not (``processor.placed_tables``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cdc.base.errors import InvalidError
from cdc.coord import election
from cdc.coord.contract import Store
from cdc.coord.draining import CaptureNotFound
from cdc.coord.feed_config import FeedConfig
from cdc.coord.keys import Keys
from cdc.coord.messages import CaptureInfo, FeedInfo
from cdc.coord.stored import readable
from owner import placing
from owner.eligibility import rule_matcher

ANYWHERE = "any"
"""In place of a capture's id: the table is delivered by whoever has room."""


class TableMoveRefused(InvalidError):
    """A table of a changefeed cannot be moved there."""

    code = "TG:ErrTableMoveRefused"


def check_moves(info: FeedInfo, schema: str, table: str) -> None:
    """Raises TableMoveRefused unless the changefeed delivers the table by several captures."""
    config = FeedConfig.model_validate(info.config)
    about = f"changefeed {info.id}, table {schema}.{table}"
    if not config.scheduler.enable_table_across_nodes:
        raise TableMoveRefused(
            "the changefeed is delivered by one capture",
            object=about,
            hint="set scheduler.enable-table-across-nodes = true by `cdc cli changefeed update`,"
            " or move its upstream by `cdc cli upstream move`",
        )
    if not rule_matcher(config).matches(schema, table):
        raise TableMoveRefused(
            "the rules of the changefeed do not match it",
            object=about,
            hint=f"`cdc cli processor query -c {info.id}` lists those that have come",
        )


def check_takes(store: Store, keys: Keys, info: FeedInfo, capture: str) -> frozenset[str]:
    """The ids of all captures; raises CaptureNotFound, or TableMoveRefused if it takes no tasks."""
    there = {c.id: c for _, c in readable(store.range(keys.capture_prefix)[1], CaptureInfo)}
    if capture == ANYWHERE:
        return frozenset(there)
    found = there.get(capture)
    if found is None:
        raise CaptureNotFound.of(capture)
    placed, _ = placing.of(store, keys, info.upstream)
    plans = placed is not None and placed.capture == capture
    if capture in election.all_drained(store, keys) or not (plans or found.lends):
        raise TableMoveRefused(
            "the capture takes no tasks of others",
            object=f"capture {capture}",
            hint="choose one that is not drained, has a local master and processor.lend-workers",
        )
    return frozenset(there)


def moved(
    placed: Mapping[str, str], table: str, capture: str, there: Collection[str]
) -> dict[str, str]:
    """Where tables are placed when one more was; what is placed at captures that are gone is not.

    >>> moved({"s.a": "x", "s.b": "y", "s.c": "z"}, "s.a", "y", {"x", "y"})
    {'s.b': 'y', 's.a': 'y'}
    """
    after = {t: c for t, c in placed.items() if t != table and c in there}
    return after if capture == ANYWHERE else {**after, table: capture}
