"""A changer in a process of its own that stops at a chosen step of a change."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from cdc.base.errors import TidegateError
from cdc.base.ids import FeedId
from sink.mysql.ddl import ledger
from sink.mysql.ddl.changer import MysqlChanger
from sink.mysql.ddl.execution import Execution
from sink.mysql.settings import MysqlSettings
from sink.schema_change import SchemaChange

FEED = FeedId("tests", "crash", 1)
# Before and after each step: record, statement, record.
POINTS = ("unrecorded", "recorded", "executed", "done")
_FORK = multiprocessing.get_context("fork")


def changer(uri: str, epoch: int) -> MysqlChanger:
    """A changer of the tests' changefeed, which has taken over."""
    made = MysqlChanger(MysqlSettings.parse(f"{uri}/"), FEED, epoch)
    made.take_over()
    return made


class Stopping:
    """Runs ``execute`` in a child; ``reached`` waits until it stands at its point."""

    def __init__(self, uri: str, epoch: int, change: SchemaChange, point: str | None) -> None:
        self._ours, theirs = _FORK.Pipe()
        self.process = _FORK.Process(target=_main, args=(uri, epoch, change, point, theirs))
        self.process.start()
        theirs.close()

    def reached(self) -> Any:
        """What the child says next: ``at``, ``end``, or the code of its error."""
        assert self._ours.poll(120), "the child says nothing"
        return self._ours.recv()

    def go_on(self) -> None:
        """Let it go on behind its point."""
        self._ours.send("go")

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.join()


def _main(uri: str, epoch: int, change: SchemaChange, point: str | None, pipe: Connection) -> None:
    def stop() -> None:
        pipe.send("at")
        pipe.recv()

    def before(call: Callable[..., None], nth: int = 1) -> Callable[..., None]:
        calls = 0

        def stopped(*args: Any, **named: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == nth:
                stop()
            call(*args, **named)

        return stopped

    try:
        made = changer(uri, epoch)
        if point == "unrecorded":
            ledger.begin = before(ledger.begin)
        elif point == "recorded":
            Execution.run = before(Execution.run)  # type: ignore[method-assign]
        elif point == "second":
            Execution.run = before(Execution.run, 2)  # type: ignore[method-assign]
        elif point == "executed":
            ledger.end = before(ledger.end)
        made.execute(change)
        if point == "done":
            stop()
        pipe.send("end")
    except TidegateError as error:
        pipe.send(error.code)
