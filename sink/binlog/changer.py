"""Schema changes as statements of the stream (``sink.schema_change.SchemaChanger``)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.binlog.events import EventType
from cdc.binlog.header import EventHeader
from cdc.rows.transactions import GtidName
from sink.binlog.errors import BinlogInternal
from sink.binlog.groups import statement
from sink.binlog.ledger import StreamLedger
from sink.binlog.settings import BinlogSettings
from sink.binlog.writer import StreamWriter, parsed_format
from sink.contract import RECOVERY_BITS
from sink.file.errors import mapped
from sink.file.ledger import CHANGE
from sink.schema_change import Logged, Recorded, SchemaChange, proven

_ENDED = frozenset({Recorded.DONE, Recorded.SKIPPED})


class BinlogChanger:
    """Writes each change once, behind all rows before it and before all behind it."""

    def __init__(self, settings: BinlogSettings, ledger: StreamLedger, epoch: int) -> None:
        self._settings = settings
        self._ledger = ledger
        self._epoch = epoch
        self._lock = threading.Lock()
        self._recorded: dict[Ts, Recorded] = {}
        self._stands: tuple[Position, ...] = ()

    def take_over(self) -> Mapping[Ts, Recorded]:
        """Write our epoch, complete the stream, read what is recorded and where it stands."""
        with self._ours():
            self._ledger.claim(self._epoch, bits=RECOVERY_BITS)
            self._ledger.settle()
            self._ledger.clear(CHANGE, self._epoch)
            self._recorded = self._ledger.begin_changes(self._epoch)
            self._stands = tuple(known.at for known in self._ledger.reached().values())
            return dict(self._recorded)

    def ties(self) -> tuple[tuple[str, str], ...]:
        """All tables are one stream anyhow."""
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

    def _write(self, change: SchemaChange) -> None:
        logged = change.logged
        if logged is None:
            raise BinlogInternal("a schema change without its event", object=f"ts {change.ts}")
        body = statement(change, logged, self._settings.names)
        writer = StreamWriter(
            self._ledger.parts,
            f"{CHANGE}{self._epoch}-{change.ts}",
            self._ledger.tail(),
            self._settings.file_size,
            self._ledger.first_number,
            self._ledger.file_name,
        )
        try:
            header = EventHeader.parse(logged.event)
            writer.begin(
                parsed_format(logged.form),
                _gtid(logged),
                timestamp=header.timestamp,
                server_id=header.server_id,
                ts=change.ts,
                statement=True,
            )
            writer.event(EventType.QUERY, body, header.flags)
            writer.end()
            writer.finish()
        except BaseException:
            writer.drop()
            raise
        self._ledger.record_change(self._epoch, change.ts, writer.tail, writer.pieces)
        self._ledger.check(self._epoch, bits=RECOVERY_BITS)
        self._recorded[change.ts] = Recorded.DONE
        self._ledger.place(writer.pieces)


def _gtid(logged: Logged) -> GtidName | None:
    name = logged.transaction
    if name is None or not name.source or name.is_none:
        return None
    return GtidName(name.source, name.sequence)
