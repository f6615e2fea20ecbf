"""Whom a log's news concern: who awaits rows of a table at once, who awaits nothing by turns.

A log resolves more all the time, also where nothing changes. What that costs must not grow with the
number of changefeeds: so one that has nothing to deliver moves its checkpoint by turns, so many a
second of all together. Where there are few, each has its turn each time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Awaited:
    """What an idle changefeed waits for: rows of ``tables``, ids of the log's dictionary.

    It has judged the dictionary below ``seen``: what comes behind may be a table of its own.
    """

    tables: Collection[int]
    seen: int

    def among(self, changed: Collection[int]) -> bool:
        """Whether rows of these tables concern it."""
        return any(table >= self.seen or table in self.tables for table in changed)
