"""The lines in which the changefeeds of a process wait for their turns.

A row of a table that a thousand changefeeds share wakes all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cdc.base.turn_line import TurnLine


@dataclass(frozen=True, slots=True)
class FeedLines:
    """Those of all changefeeds of a process: for a turn's own work, and for taking a sink over.

    A sink that hangs then keeps only others that take theirs over, and not those that deliver.
    """

    work: TurnLine
    takeover: TurnLine

    @classmethod
    def of(cls, at_once: int) -> FeedLines:
        """Of so many at once, each."""
        return cls(TurnLine(at_once), TurnLine(at_once))

    @contextmanager
    def taking_over(self) -> Iterator[None]:
        """Wait for a sink that is taken over, of one that is at work; nobody has both places."""
        with self.work.outside(), self.takeover.inside():
            yield
