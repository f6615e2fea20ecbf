"""What a changer over a file ledger does whatever it writes: its lock, its epoch, its records."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

from cdc.base.position import Position
from cdc.base.ts import Ts
from sink.contract import RECOVERY_BITS
from sink.file.errors import mapped
from sink.file.ledger import CHANGE, FileLedger
from sink.schema_change import Recorded, SchemaChange, proven

_ENDED = frozenset({Recorded.DONE, Recorded.SKIPPED})

L = TypeVar("L", bound=FileLedger)


class RecordingChanger(ABC, Generic[L]):
    """A ``sink.schema_change.SchemaChanger`` that keeps its records in a file ledger."""

    def __init__(self, ledger: L, epoch: int) -> None:
        self._ledger = ledger
        self._epoch = epoch
        self._lock = threading.Lock()
        self._recorded: dict[Ts, Recorded] = {}
        self._stands: tuple[Position, ...] = ()

    def take_over(self) -> Mapping[Ts, Recorded]:
        """Write our epoch, read what is recorded and where tables stand."""
        with self._ours():
            self._ledger.claim(self._epoch, bits=RECOVERY_BITS)
            self._complete()
            self._ledger.clear(CHANGE, self._epoch)
            self._recorded = self._ledger.begin_changes(self._epoch)
            self._stands = tuple(known.at for known in self._ledger.reached().values())
            return dict(self._recorded)

    def ties(self) -> tuple[tuple[str, str], ...]:
        """Nothing ties tables together that are files, or one stream anyhow."""
        return ()

    def execute(self, change: SchemaChange) -> None:
        """Write it, unless it is recorded or rows behind it were delivered."""
        with self._ours():
            if self._recorded.get(change.ts) in _ENDED:
                return
            if proven(change, self._stands):
                self._record({change.ts: Recorded.DONE})
            else:
                self._write(change)

    def skip(self, change: SchemaChange) -> None:
        """Record that it is not to be written."""
        with self._ours():
            if self._recorded.get(change.ts) not in _ENDED:
                self._record({change.ts: Recorded.SKIPPED})

    def forget_below(self, ts: Ts) -> None:
        """Remove the records at or below ``ts``."""
        with self._ours():
            old = [known for known in self._recorded if known <= ts]
            if old:
                self._record(dict.fromkeys(old))

    def close(self) -> None:
        """Nothing is held."""

    def _complete(self) -> None:
        """Put in its place what a crash has left committed; our epoch is written."""

    @abstractmethod
    def _write(self, change: SchemaChange) -> None:
        """Write the change durably, and record it as done."""

    @contextmanager
    def _ours(self) -> Iterator[None]:
        with self._lock, mapped(), self._ledger.of(self._epoch, bits=RECOVERY_BITS):
            yield

    def _record(self, states: Mapping[Ts, Recorded | None]) -> None:
        self._ledger.record(self._epoch, states)
        self._ledger.check(self._epoch, bits=RECOVERY_BITS)
        for ts, state in states.items():
            if state is None:
                self._recorded.pop(ts, None)
            else:
                self._recorded[ts] = state
