"""Which capture runs which changefeed, and the tables that it has there: TiCDC's tasks."""

from __future__ import annotations

from cdc.api import progress
from cdc.api.changefeed_models import TaskStatus
from cdc.base.errors import TidegateError
from cdc.coord.keys import last
from cdc.coord.messages import Assignment, FeedInfo
from cdc.coord.stored import readable
from cdc.server.capture import Capture


def assignments(capture: Capture) -> list[tuple[str, Assignment]]:
    """What each living capture is to run."""
    store, keys = capture.store, capture.keys
    found: list[tuple[str, Assignment]] = []
    for entry in store.range(keys.capture_prefix)[1]:
        name = last(entry.key)
        tasks = store.range(keys.assignments_prefix(name))[1]
        found += [(name, task) for _, task in readable(tasks, Assignment)]
    return found


def task_status(capture: Capture, info: FeedInfo) -> list[TaskStatus]:
    """The captures that run a changefeed, with the ids of its tables.

    A log that cannot be read now has no ids to show; the changefeed's own error says why.
    """
    running = [name for name, a in assignments(capture) if a.feed == info.id and a.run]
    if not running:
        return []
    try:
        ids = sorted(progress.table_ids(capture, info))
    except TidegateError:
        ids = []
    return [TaskStatus(capture_id=name, table_ids=ids) for name in running]
