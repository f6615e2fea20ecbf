"""What is seen to at a sink before the rows that a changefeed begins with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from cdc.base.ids import FeedId
from cdc.coord.snapshot_config import OnExisting
from cdc.schema.table import Table
from sink.errors import SinkOptionNotSupported


class FirstRows(Protocol):
    """What is done with rows that the target has already, under one ``snapshot.on-existing``."""

    def check(self, tables: Iterable[Table]) -> None:
        """Raise what forbids to deliver the rows of ``tables``, as far as that shows by looking."""

    def prepare(self, feed: FeedId, tables: Iterable[Table]) -> None:
        """Have the target ready for the rows of ``tables``; raises what ``check`` raises.

        Called before each recovery while there are rows; once the changefeed has been taken over
        for the first time it does nothing, as what is there may be its own.
        """


class _Messages:
    """Of a sink that appends: what is there already is no matter."""

    def check(self, tables: Iterable[Table]) -> None:
        """Nothing forbids them."""

    def prepare(self, feed: FeedId, tables: Iterable[Table]) -> None:
        """Nothing is to be done."""


def appended(existing: OnExisting | None) -> FirstRows:
    """Of a sink that appends. Raises SinkOptionNotSupported for a choice, as it has none."""
    if existing is not None:
        raise SinkOptionNotSupported(
            "this sink appends, and knows nothing of rows that are there already",
            object="snapshot.on-existing",
            hint="leave it out; it is for tables of MySQL and MariaDB",
        )
    return _Messages()
