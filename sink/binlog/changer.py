"""Schema changes as statements of the stream (``sink.schema_change.SchemaChanger``)."""

from __future__ import annotations

from cdc.base.nodes import of_node
from cdc.binlog.events import EventType
from cdc.binlog.header import EventHeader
from cdc.rows.transactions import GtidName
from sink.binlog.errors import BinlogInternal
from sink.binlog.groups import statement
from sink.binlog.ledger import StreamLedger
from sink.binlog.settings import BinlogSettings
from sink.binlog.writer import StreamWriter, parsed_format
from sink.contract import RECOVERY_BITS
from sink.file.ledger import CHANGE
from sink.file.recording import RecordingChanger
from sink.schema_change import Logged, Recorded, SchemaChange


class BinlogChanger(RecordingChanger[StreamLedger]):
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
