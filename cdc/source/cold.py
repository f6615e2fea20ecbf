"""Events that are rare: what each means for the log. Everything else is done by a kernel."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from cdc.base.ts import compose, from_micros
from cdc.binlog.control import Heartbeat, Incident, Rotate
from cdc.binlog.errors import TransactionStructureBad
from cdc.binlog.events import Dialect, Disposition, EventType, kind_of, refuse
from cdc.binlog.format_description import ChecksumAlgorithm, FormatDescription
from cdc.binlog.gtid import Gtid
from cdc.binlog.header import FLAG_ARTIFICIAL, EventHeader, checksum
from cdc.binlog.query import Query
from cdc.binlog.statement import first_word, is_statement_dml, is_step, statement_format
from cdc.binlog.xa import XaPrepare, Xid, parse_statement
from cdc.changelog.index import LAST_OF_TRANSACTION, PREPARED_BEFORE, RunKind, Runs
from cdc.kernels import index as K  # noqa: N812
from cdc.source.ddl_scan import may_change_tables
from cdc.source.position import file_number
from cdc.source.rolled_back import Kept, goes_back, remains
from cdc.source.walker import CHECKSUM, HEADER, Walker

_log = logging.getLogger("puller")
_T = EventType
_COMPRESSED = frozenset({_T.TRANSACTION_PAYLOAD, *range(165, 172)})
_FILE_ONLY = frozenset(
    {
        _T.STOP,
        _T.PREVIOUS_GTIDS,
        _T.MARIADB_GTID_LIST,
        _T.MARIADB_BINLOG_CHECKPOINT,
        _T.MARIADB_START_ENCRYPTION,
        _T.TRANSACTION_CONTEXT,
        _T.VIEW_CHANGE,
    }
)


class ColdEvents:
    """Handles one event at a time; ``heartbeats`` counts those seen."""

    def __init__(self, walker: Walker) -> None:
        self._w = walker
        self.heartbeats = 0
        self.checksums = True
        self.dialect = Dialect.MARIADB if walker.server_kind == "mariadb" else Dialect.MYSQL

    def handle(self, event: bytes) -> bool:
        """Take an event (with CRC). False: nothing was done, it changes how bytes are to be read.

        It is compressed, or it says how the events behind it end.
        """
        code = event[4]
        if code in _COMPRESSED or code == _T.FORMAT_DESCRIPTION:
            return False
        if code == _T.QUERY:
            self._query(event)
        elif code in (_T.HEARTBEAT, _T.HEARTBEAT_V2):
            self._heartbeat(event)
        elif code == _T.ROTATE:
            self._rotate(event)
        elif code == _T.GTID_TAGGED:
            self._tagged_gtid(event)
        elif code == _T.XA_PREPARE:
            self._xa_prepare(event)
        elif code == _T.XID and self._w.state[K.CUT]:
            self._cut_back()
            self._again(event)
        elif code in _FILE_ONLY:
            self._w.pass_event(event)
            self._w.mark_boundary()
        else:
            self._refuse(event)
        return True

    def _refuse(self, event: bytes) -> None:
        here = self._w.here()
        kind = kind_of(self.dialect, event[4], position=here)
        if kind.type is _T.INCIDENT:
            raise Incident.parse(event[HEADER:-CHECKSUM]).error(position=here)
        if kind.disposition is Disposition.REFUSED:
            if kind.statement_dml:
                raise statement_format("LOAD DATA", object=kind.name, position=here)
            raise refuse(kind, position=here)
        raise TransactionStructureBad(
            f"{kind.name} where it cannot be", object="replication stream", position=here
        )

    # --- files ---------------------------------------------------------------------------------

    def _rotate(self, event: bytes) -> None:
        rotate = Rotate.parse(event[HEADER:-CHECKSUM])
        self._w.file = rotate.file
        self._w.state[K.FILE] = file_number(rotate.file)
        self._w.state[K.POS] = rotate.position
        artificial = EventHeader.parse(event).flags & FLAG_ARTIFICIAL
        if not artificial:
            self._w.created = self._w.written_by = 0
        self._w.mark_boundary()

    def format_description(self, event: bytes) -> None:
        """Take a FORMAT_DESCRIPTION; our own segments get it with checksums announced."""
        header = EventHeader.parse(event)
        description = FormatDescription.parse(event[HEADER:])
        if self._w.in_group:
            self._given_up(description)
        self.dialect = description.dialect
        self.checksums = description.checksum is ChecksumAlgorithm.CRC32
        self._w.state[K.ADDED] = 0 if self.checksums else CHECKSUM
        self._w.created, self._w.written_by = header.timestamp, header.server_id
        body = replace(description, checksum=ChecksumAlgorithm.CRC32, created=0).encode()
        length = HEADER + len(body) + CHECKSUM
        own = replace(header, length=length, flags=0, next_position=4 + length).encode() + body
        self._w.writer.set_format(own + checksum(own))
        if header.next_position:
            self._w.state[K.POS] = header.next_position
        self._w.mark_boundary()

    def _given_up(self, description: FormatDescription) -> None:
        # A server that crashed while it wrote a transaction has rolled it back, and so do its
        # replicas when they see it start anew; without a start the stream makes no sense.
        if not description.created:
            raise TransactionStructureBad(
                "a file ended inside of a transaction, and no start of the server follows",
                object="replication stream",
                position=self._w.here(),
            )
        _log.warning("rolled back a transaction that the server's crash cut, at %s", self._w.here())
        self._w.rollback()

    def _heartbeat(self, event: bytes) -> None:
        self.heartbeats += 1
        body = event[HEADER:-CHECKSUM]
        beat = Heartbeat.parse_v2(body) if event[4] == _T.HEARTBEAT_V2 else Heartbeat.parse(body)
        if beat.position is not None and beat.position > self._w.state[K.POS]:
            self._w.state[K.POS] = beat.position
        else:
            self._w.pass_event(event)
        self._w.mark_boundary()

    # --- groups --------------------------------------------------------------------------------

    def _tagged_gtid(self, event: bytes) -> None:
        gtid = Gtid.parse_tagged(event[HEADER:-CHECKSUM])
        micros = gtid.immediate_commit_timestamp
        seconds = EventHeader.parse(event).timestamp
        ts = from_micros(micros) if micros else compose(seconds * 1000)
        self._w.begin(ts, self._w.source(str(gtid.source)), gtid.gno, begun=False)
        self._w.append_event(event)

    def _query(self, event: bytes) -> None:
        query = Query.parse(event[HEADER:-CHECKSUM])
        sql = query.sql
        xa = parse_statement(sql)
        if xa is not None:
            self._xa(event, *xa)
            return
        if not self._w.in_group:
            # Servers without GTID events.
            ts = compose(EventHeader.parse(event).timestamp * 1000)
            self._w.begin(ts, -1, self._w.upstream_pos, begun=False)
        if is_statement_dml(sql):
            raise statement_format(sql, object=query.schema, position=self._w.here())
        word = first_word(sql) if is_step(sql) else ""
        if goes_back(sql):
            self._w.state[K.CUT] = 1
            self._w.append_event(event)
        elif word in ("COMMIT", "ROLLBACK"):
            self._end(event, committed=word == "COMMIT")
        elif may_change_tables(query):
            self._schema_change(event)
        else:
            self._w.append_event(event)
            if not self._w.state[K.BEGUN]:
                self._w.finish()

    def _schema_change(self, event: bytes) -> None:
        self._w.append_event(event, self._one(RunKind.DDL, event))
        if self._w.state[K.BEGUN]:
            # Rows that follow (CREATE TABLE … SELECT) come after the DDL, not at its ts.
            self._w.state[K.LAST] += 1
            self._w.state[K.TS] = self._w.state[K.LAST]
        else:
            self._w.finish()

    def _end(self, event: bytes, *, committed: bool) -> None:
        """COMMIT or ROLLBACK of the open group."""
        s = self._w.state
        if committed and s[K.KIND] == int(RunKind.PREPARE):
            raise TransactionStructureBad(
                "an XA transaction ends with COMMIT", position=self._w.here()
            )
        if committed and s[K.CUT]:
            self._cut_back()
            self._again(event)
            return
        if not committed and not self._cut_back(ended_by_rollback=True):
            self._w.abandon(event)
            return
        self._w.append_event(event)
        self._w.finish()

    def _cut_back(self, *, ended_by_rollback: bool = False) -> bool:
        """Leave of the open group what was not rolled back; False if that would be nothing."""
        kept = Kept(may_change_tables, self._w.here())
        stretches = self._w.writer.since_mark()
        with remains(stretches, kept, ended_by_rollback=ended_by_rollback) as events:
            if not events:
                return False
            self._w.begin_again(events, self.handle)
            return True

    def _again(self, event: bytes) -> None:
        """Give the kernel an event that it had left to us."""
        self._w.walk_all(np.frombuffer(event, np.uint8), self.handle)

    def _one(self, kind: RunKind, event: bytes, xid: int = -1) -> Runs:
        s = self._w.state
        return Runs.build(
            1,
            commit_ts=0 if kind is RunKind.PREPARE else s[K.TS],
            kind=int(kind),
            flags=LAST_OF_TRANSACTION,
            length=len(event),
            gtid_source=s[K.SOURCE],
            gtid_seq=s[K.SEQUENCE],
            upstream_file=s[K.FILE],
            upstream_pos=s[K.POS],
            xid=xid,
        )

    # --- XA ------------------------------------------------------------------------------------

    def _prepare(self, xid: Xid) -> None:
        s = self._w.state
        s[K.KIND], s[K.XID] = int(RunKind.PREPARE), self._w.xid(xid)
        s[K.BEGUN] = 1

    def _xa(self, event: bytes, verb: str, xid: Xid) -> None:
        if verb == "START" and self._w.in_group:
            self._prepare(xid)
            self._w.append_event(event)
        elif verb in ("COMMIT", "ROLLBACK") and self._w.in_group:
            self._xa_end(event, xid, committed=verb == "COMMIT")
        else:
            self._w.append_event(event)

    def _xa_prepare(self, event: bytes) -> None:
        prepare = XaPrepare.parse(event[HEADER:-CHECKSUM])
        if not self._w.in_group:
            raise TransactionStructureBad("XA_PREPARE without a start", position=self._w.here())
        if self._w.state[K.CUT]:
            self._cut_back()
        if prepare.one_phase:
            self._xa_end(event, prepare.xid, committed=True)
            return
        number = self._w.xid(prepare.xid)
        self._w.append_event(event, self._one(RunKind.PREPARE, event, number))
        self._w.finish()

    def _xa_end(self, event: bytes, xid: Xid, *, committed: bool) -> None:
        number = self._w.xid(xid)
        s = self._w.state
        ours = s[K.KIND] == int(RunKind.PREPARE) and s[K.XID] == number
        before = committed and not ours and not self._w.writer.is_prepared(number)
        if before and not self._w.prepared_before(xid):
            raise self._w.xa_not_known(str(xid))
        rows = self._w.writer.prepared(number)
        if committed and len(rows):
            rows.commit_ts[:] = s[K.TS]
            rows.gtid_source[:] = s[K.SOURCE]
            rows.gtid_seq[:] = s[K.SEQUENCE]
            rows.flags[:] = 0
            rows.flags[-1] = LAST_OF_TRANSACTION
            ends = np.cumsum(rows.rows.astype(np.int64))
            rows.first_row[:] = ends - rows.rows
        kind = RunKind.COMMIT if committed else RunKind.ROLLBACK
        end = self._one(kind, event, number)
        if before:
            end.flags |= PREPARED_BEFORE
        self._w.append_event(event, Runs.concat([rows, end]) if committed else end)
        self._w.xid_ended(xid)
        self._w.finish()
