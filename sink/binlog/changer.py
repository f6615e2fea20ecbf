"""Schema changes as statements of the stream (``sink.schema_change.SchemaChanger``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc.base.nodes import of_node
from cdc.base.ts import Ts
from cdc.binlog.events import EventType
from cdc.binlog.header import EventHeader
from cdc.rows.transactions import GtidName
from cdc.schema.ddl import read_delivered
from sink.binlog.errors import BinlogInternal
from sink.binlog.groups import statement
from sink.binlog.ledger import StreamLedger
from sink.binlog.settings import BinlogSettings
from sink.binlog.streams import check_rows_stay
from sink.binlog.writer import StreamWriter, parsed_format
from sink.contract import RECOVERY_BITS
from sink.file.errors import mapped
from sink.file.ledger import CHANGE
from sink.file.recording import RecordingChanger
from sink.schema_change import Logged, Recorded, SchemaChange

_ENDED = frozenset({Recorded.DONE, Recorded.SKIPPED})


class BinlogChanger:
    """Writes each change into every stream: what it is about has rows, or will have, in any."""

    def __init__(
        self, settings: BinlogSettings, ledgers: Sequence[StreamLedger], epoch: int
    ) -> None:
        self._settings = settings
        self._ledgers = ledgers
        self._epoch = epoch
        self._streams = [StreamChanger(settings, ledger, epoch) for ledger in ledgers]

    def take_over(self) -> Mapping[Ts, Recorded]:
        """A change is done, or skipped, once it is so in every stream."""
        with mapped():
            self._settings.shared.assignment()
        found = [stream.take_over() for stream in self._streams]
        with mapped(), self._ledgers[0].holding(self._epoch, bits=RECOVERY_BITS):
            self._settings.shared.claim()
        recorded: dict[Ts, Recorded] = {}
        for ts in found[0]:
            states = {stream.get(ts) for stream in found}
            if states <= _ENDED:
                recorded[ts] = max(state for state in states if state is not None)
        return recorded

    def ties(self) -> tuple[tuple[str, str], ...]:
        """All tables wait for a change anyhow."""
        return ()

    def execute(self, change: SchemaChange) -> None:
        """Write it where it is not yet. Raises BinlogRowsMove where streams could not go on."""
        if len(self._streams) > 1:
            with mapped():
                self._assign(change)
        for stream in self._streams:
            stream.execute(change)

    def skip(self, change: SchemaChange) -> None:
        """Record everywhere that it is not to be written."""
        for stream in self._streams:
            stream.skip(change)

    def forget_below(self, ts: Ts) -> None:
        """Remove the records at or below ``ts``."""
        for stream in self._streams:
            stream.forget_below(ts)

    def close(self) -> None:
        """Nothing is held."""

    def _assign(self, change: SchemaChange) -> None:
        """Keep renamed tables in their streams: first, as nobody asks for what is recorded."""
        shared, names = self._settings.shared, self._settings.names
        statement = read_delivered(change.sql, change.session)
        assigned = shared.assignment()
        check_rows_stay(change, statement, assigned)
        pairs = statement.renames
        if names.merging:
            pairs = tuple((names.target(*old), names.target(*new)) for old, new in pairs)
        with self._ledgers[0].holding(self._epoch, bits=RECOVERY_BITS):
            now = shared.assignment().renamed(pairs, change.ts) if pairs else assigned
            if now != assigned:
                shared.keep(now)


class StreamChanger(RecordingChanger[StreamLedger]):
    """Writes each change once, behind all rows before it and before all behind it."""

    def __init__(self, settings: BinlogSettings, ledger: StreamLedger, epoch: int) -> None:
        super().__init__(ledger, epoch)
        self._settings = settings

    def _complete(self) -> None:
        self._ledger.settle()

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
    # GTIDs of several nodes are in no order, and a stream of all of them has none.
    if of_node(name.source):
        return None
    return GtidName(name.source, name.sequence)
