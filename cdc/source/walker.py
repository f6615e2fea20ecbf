"""From whole events to the log: the walk kernel does the common, ``cold`` events come back here."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.errors import TidegateError
from cdc.base.ts import MAX_TS, Ts
from cdc.binlog.errors import EventChecksumBad, EventMalformed, TransactionStructureBad
from cdc.binlog.events import EventType
from cdc.binlog.table_map import TableMap
from cdc.binlog.xa import Xid
from cdc.changelog.index import Runs
from cdc.changelog.origin import ROOM_BELOW_PIN, UNKNOWN, Origin, Pin
from cdc.changelog.writer import LogWriter
from cdc.kernels import index as K  # noqa: N812
from cdc.kernels import xids as X  # noqa: N812
from cdc.source.committed_rows import with_rows, without_prepare
from cdc.source.errors import (
    LAGS_OR_LOST,
    StreamBroken,
    TransactionMissing,
    TransactionMoved,
    XaNotKnown,
)
from cdc.source.gtids import GtidTracker
from cdc.source.position import UpstreamPosition, file_number
from cdc.source.table_index import TableIndex
from cdc.source.xid_table import XidTable

HEADER = 19
CHECKSUM = 4
_RUNS = 8192
_MAPS = 256
_NO_SOURCE = -2


class Walker:
    """Feeds whole events to the log writer and knows where the upstream goes on.

    ``due`` says at a transaction's end whether to commit now. ``begun``: what was known where the
    log began. Invariant: ``position`` and ``resolved`` belong to the last complete transaction that
    was appended, and ``clean`` says that nothing behind it was.
    """

    def __init__(
        self,
        writer: LogWriter,
        server_kind: str,
        position: UpstreamPosition,
        due: Callable[[], bool],
        begun: Origin = UNKNOWN,
    ) -> None:
        self.writer = writer
        self.server_kind = server_kind
        self.due = due
        self.carry_out: Callable[[Ts, dict[str, Any], bool], object] = self._carry_out
        self.state = np.zeros(K.STATE_SIZE, np.int64)
        self.state[[K.SOURCE, K.RUN_TABLE, K.XID, K.BOUNDARY]] = -1
        self.state[K.LAST] = max(writer.state.last_ts, writer.state.resolved_ts)
        self.state[K.LATEST] = MAX_TS
        self.state[K.FILE] = file_number(position.file)
        self.state[K.POS] = position.pos
        self.file = position.file
        self.created = position.created
        self.written_by = position.written_by
        self.gtids = GtidTracker(server_kind, position.gtid)
        self.resolved: Ts = writer.state.resolved_ts
        self.clean = True
        self.uncommitted = 0
        self.rows = 0
        self._boundary = position
        self._maps = np.zeros((_MAPS, K.M_SIZE), np.int64)
        self._map_events: list[bytes] = []
        self._tables = TableIndex()
        self._sources = np.full((4, 3), -1, np.int64)
        self._source_texts: dict[int, str] = {}
        self._source_ids: dict[str, int] = {}
        self._latest: Ts = MAX_TS
        self._runs = np.zeros((_RUNS, K.R_SIZE), np.int64)
        self._transactions = np.zeros((_RUNS, 2), np.int64)
        last = int(self.state[K.LAST])
        # Of a pin that lies behind us only what is above it may still count.
        behind = (pin.floor for pin in begun.pins if pin.name.ts <= last)
        self.state[K.LAST] = max([last, begun.floor, *behind])
        self._xids = XidTable(writer.xids())
        self._pins = deque(pin for pin in begun.pins if pin.name.ts > last)
        self._prepared_before = begun.prepared
        self._load_pin()

    # --- where we are --------------------------------------------------------------------------

    @property
    def in_group(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return bool(self.state[K.IN])

    @property
    def boundary(self) -> UpstreamPosition:
        """Behind the last complete transaction that was appended."""
        b = self._boundary
        return UpstreamPosition(b.file, b.pos, self.gtids.text, b.created, b.written_by)

    def here(self) -> str:
        """For errors: file and offset of the next event upstream."""
        return f"{self.file}:{int(self.state[K.POS])}"

    def mark_boundary(self) -> None:
        """Everything up to the upstream offset of now is complete."""
        if not self.in_group:
            pos = int(self.state[K.POS])
            self._boundary = UpstreamPosition(self.file, pos, None, self.created, self.written_by)

    @property
    def upstream_pos(self) -> int:
        """Upstream offset behind the last event."""
        return int(self.state[K.POS])

    @upstream_pos.setter
    def upstream_pos(self, pos: int) -> None:
        self.state[K.POS] = pos

    def behind(self, length: int) -> int:
        """Upstream offset behind an event of which our copy has ``length`` bytes."""
        return int(self.state[K.POS] + length - self.state[K.ADDED])

    def resolve(self, ts: Ts) -> None:
        """Nothing at or below ``ts`` will come any more; later commits get a larger one.

        Raises TransactionMissing if one that is pinned has not come.
        """
        if not self.in_group:
            self._pass_pin()
            if self._pins:
                raise self._missing(self._pins[0])
            self.resolved = max(self.resolved, ts)
            self.state[K.LAST] = max(int(self.state[K.LAST]), self.resolved)

    def bound(self, ts: Ts) -> None:
        """Believe no later time of an event than ``ts`` from now on; it then gets the next ts."""
        self._latest = ts
        pin = self._pins[0] if self._pins else None
        self.state[K.LATEST] = ts if pin is None else min(ts, pin.name.ts - ROOM_BELOW_PIN)

    # --- transactions whose ts is known --------------------------------------------------------

    def _load_pin(self) -> None:
        """Let the kernel look for the next one; its GTID's source may not be known yet."""
        pin = self._pins[0] if self._pins else None
        name = pin.name if pin is not None else None
        source = _NO_SOURCE
        if name is not None:
            source = self._source_ids.get(name.source, _NO_SOURCE) if name.source else -1
        self.state[[K.PIN_SOURCE, K.PIN_SEQUENCE, K.PIN_FILE, K.PIN_TS]] = (
            (source, name.sequence, name.file, name.ts) if name is not None else (source, 0, 0, 0)
        )
        self.bound(self._latest)

    def _check_pin(self) -> None:
        """Raises TransactionMoved if a pinned transaction has come too late for its ts."""
        given = -int(self.state[K.PIN_TS])
        if given > 0 and given != self._pins[0].name.ts:
            raise self._moved(self._pins[0])

    def _pass_pin(self) -> None:
        """Behind the transaction that was pinned: the next one, and nothing up to the floor."""
        if self.state[K.PIN_TS] < 0 and not self.in_group:
            self.state[K.LAST] = max(int(self.state[K.LAST]), self._pins.popleft().floor)
            self._load_pin()

    def _unpin(self) -> None:
        """The open group is given up: where it was the pinned one, it will come again."""
        if self.in_group and self.state[K.PIN_TS] < 0:
            self.state[K.LAST] = self._pins[0].name.ts - 1
            self._load_pin()

    def _missing(self, pin: Pin) -> TidegateError:
        name = pin.name
        if self.boundary.passed(name, self.server_kind):
            return self._moved(pin)
        return TransactionMissing(
            f"{name} was delivered at ts {name.ts}, and this server's binlog ends before it",
            object="upstream binlog",
            position=self.here(),
            hint=LAGS_OR_LOST,
        )

    def _moved(self, pin: Pin) -> TidegateError:
        return TransactionMoved(
            f"{pin.name}, which was delivered at ts {pin.name.ts}, does not lie there in this"
            " server's binlog",
            object="upstream binlog",
            position=self.here(),
            hint="its transactions have another order than those of the server that was read"
            " before; read that one, or resume with --overwrite-checkpoint-ts",
        )

    @property
    def ahead(self) -> Ts:
        """The largest ts of an event that was later than its bound; 0 if none was."""
        return int(self.state[K.AHEAD])

    def rollback(self) -> None:
        """Give up the open transaction: it will not be gone on with."""
        self.writer.rollback()
        self._unpin()
        s = self.state
        s[[K.IN, K.BEGUN, K.MAPS, K.ROWS, K.RUNS, K.FLAGGED, K.CUT]] = 0
        s[[K.RUN_TABLE, K.XID, K.SOURCE]] = -1
        s[K.KIND] = K.DML
        self._map_events.clear()
        self.clean = True

    def abandon(self, event: bytes) -> None:
        """End the open group by its ROLLBACK: nothing of it stays but its GTID and its place."""
        s = self.state
        kept = s[[K.SOURCE, K.SEQUENCE, K.TS, K.LAST, K.PIN_TS]]
        self.rollback()
        s[[K.SOURCE, K.SEQUENCE, K.TS, K.LAST, K.PIN_TS]] = kept
        self.pass_event(event)
        self.finish()

    def begin_again(self, kept: Iterable[NDArray[np.uint8]], cold: Callable[[bytes], bool]) -> None:
        """Put ``kept``, whole events, in the place of all that the open group has had so far."""
        pos = int(self.state[K.POS])
        self.rollback()
        self.state[K.POS] = self._boundary.pos
        for events in kept:
            self.walk_all(events, cold)
        if self.state[K.CUT]:
            raise self._error(K.BAD_GROUP)
        self.state[K.POS] = pos

    def commit(self, *, behind: bool = False) -> None:
        """Make what was appended durable; only at a boundary with nothing behind it.

        ``behind``: more is waiting to be walked meanwhile.
        """
        self.carry_out(self.resolved, self.boundary.to_dict(), behind)
        self.uncommitted = 0

    def _carry_out(self, resolved: Ts, position: dict[str, Any], behind: bool) -> None:
        self.writer.commit(resolved, position)

    # --- walking -------------------------------------------------------------------------------

    def walk(self, buf: NDArray[np.uint8], lo: int, hi: int, cold: Callable[[bytes], bool]) -> int:
        """Walk the whole events of ``buf[lo:hi]`` into the log; returns where it stopped.

        ``cold`` gets each event that the kernel does not know and returns False to stop before
        it; then the offset is that of the event, else it is ``hi``.
        """
        while lo < hi:
            live = tuple(self._map_events)
            first_xid = self.writer.free_xids(2 * _RUNS)
            self._xids.state[X.NEXT] = first_xid
            self.state[[K.RUNS, K.TXNS]] = 0
            self.state[K.BOUNDARY] = -1
            end, code = K.walk(
                buf,
                lo,
                hi,
                self.state,
                self._maps,
                self._tables.slots,
                self._tables.tables,
                self._tables.bodies,
                self._tables.columns,
                self._tables.hops,
                self._sources,
                self._runs,
                self._transactions,
                *self._xids.arrays,
            )
            self._check_pin()
            self._keep_xids(first_xid)
            self._keep_maps(buf)
            self._flush(buf, lo, end, live)
            lo = end
            if code == K.DONE:
                continue
            if code == K.COLD:
                event = self._event(buf, lo, hi)
                if not cold(event):
                    return lo
                lo += len(event)
            elif code == K.NEW_TABLE:
                self._register_table(self._event(buf, lo, hi))
            elif code == K.NEW_SOURCE:
                self._register_source(self._event(buf, lo, hi))
            elif code == K.PINNED:
                self._pass_pin()
            elif code == K.FULL:
                self._make_room()
            else:
                raise self._error(code)
        return lo

    def walk_all(self, buf: NDArray[np.uint8], cold: Callable[[bytes], bool]) -> None:
        """Walk events that lie inside of a group: ``cold`` must take all that it gets."""
        if self.walk(buf, 0, buf.size, cold) < buf.size:
            raise self._error(K.BAD_GROUP)

    def _event(self, buf: NDArray[np.uint8], at: int, hi: int) -> bytes:
        length = int.from_bytes(buf[at + 9 : at + 13].tobytes(), "little")
        return buf[at : min(at + length, hi)].tobytes()

    def _keep_maps(self, buf: NDArray[np.uint8]) -> None:
        # The buffer is used again, so the maps of an open statement are copied out of it.
        count = int(self.state[K.MAPS])
        if count == 0:
            self._map_events.clear()
            return
        for k in range(count):
            at = int(self._maps[k, K.M_AT])
            if at >= 0:
                del self._map_events[k:]
                self._map_events.append(buf[at : at + int(self._maps[k, K.M_LENGTH])].tobytes())
                self._maps[k, K.M_AT] = -1
        del self._map_events[count:]

    def _keep_xids(self, first: int) -> None:
        # What was prepared and has ended within a call needs no line in the log's file of xids.
        end = int(self._xids.state[X.NEXT])
        if end > first:
            self.writer.take_xids(end, self._xids.between(first, end))

    def _flush(self, buf: NDArray[np.uint8], lo: int, end: int, live: tuple[bytes, ...]) -> None:
        boundary = int(self.state[K.BOUNDARY])
        runs = int(self.state[K.RUNS])
        if boundary < 0:
            self._append(buf[lo:end], self._runs[:runs], lo, live)
            return
        cut = int(self.state[K.BOUNDARY_RUNS])
        self._append(buf[lo:boundary], self._runs[:cut], lo, live)
        self.gtids.add(self._transactions[: int(self.state[K.TXNS])], self._source_texts)
        pos = int(self.state[K.BOUNDARY_POS])
        self._boundary = UpstreamPosition(self.file, pos, None, self.created, self.written_by)
        self.resolved = max(self.resolved, int(self.state[K.BOUNDARY_TS]))
        self.clean = True
        self.writer.mark()
        if boundary < end and self.due():
            self.commit(behind=True)
        self._append(buf[boundary:end], self._runs[cut:runs], boundary, ())

    def _append(
        self,
        data: NDArray[np.uint8],
        raw: NDArray[np.int64],
        base: int,
        live: tuple[bytes, ...],
    ) -> None:
        if not len(data):
            return
        # A copy: the kernel writes over its rows while the log still holds these.
        raw = np.array(raw, order="F")
        runs = Runs.build(
            len(raw),
            commit_ts=raw[:, K.R_TS],
            kind=raw[:, K.R_KIND],
            flags=raw[:, K.R_FLAGS],
            table=raw[:, K.R_TABLE],
            offset=raw[:, K.R_OFFSET] - base,
            length=raw[:, K.R_LENGTH],
            first_row=raw[:, K.R_FIRST_ROW],
            rows=raw[:, K.R_ROWS],
            gtid_source=raw[:, K.R_SOURCE],
            gtid_seq=raw[:, K.R_SEQUENCE],
            upstream_file=raw[:, K.R_FILE],
            upstream_pos=raw[:, K.R_POS],
            xid=raw[:, K.R_XID],
        )
        prepared = self.writer.all_prepared()
        unknown = without_prepare(runs, prepared)
        if len(unknown):
            raise self.xa_not_known(f"number {runs.xid[unknown[0]]}")
        self.writer.append(data, with_rows(runs, prepared), live)
        self.rows += int(raw[:, K.R_ROWS].sum())
        self.uncommitted += len(data)
        self.clean = False

    def append_event(self, event: bytes, runs: Runs | None = None) -> None:
        """Write one event that the kernel left to us, and pass it upstream."""
        self.writer.append(event, runs if runs is not None else Runs.empty(), self._map_events)
        self.uncommitted += len(event)
        self.clean = False
        self.pass_event(event)

    def pass_event(self, event: bytes) -> None:
        """Move the upstream offset behind an event, whether it is written or not."""
        next_pos = int.from_bytes(event[13:17], "little")
        pos = int(self.state[K.POS])
        if next_pos == 0:
            return
        after = pos & ~0xFFFFFFFF | next_pos
        self.state[K.POS] = after + (1 << 32) if after < pos else after

    # --- groups --------------------------------------------------------------------------------

    def begin(self, ts: Ts, source: int, sequence: int, *, begun: bool) -> None:
        """Begin a group as the kernel does at a GTID event."""
        if self.in_group:
            raise self._error(K.BAD_GROUP)
        self._pass_pin()
        s = self.state
        pinned = (
            s[K.PIN_TS] > 0
            and (source, sequence) == (s[K.PIN_SOURCE], s[K.PIN_SEQUENCE])
            and (source >= 0 or s[K.FILE] == s[K.PIN_FILE])
        )
        if pinned:
            ts = int(s[K.PIN_TS])
        elif ts > s[K.LATEST]:
            s[K.AHEAD], ts = max(int(s[K.AHEAD]), ts), 0
        s[K.TS] = s[K.LAST] = max(int(s[K.LAST]) + 1, ts)
        if pinned:
            s[K.PIN_TS] = -s[K.TS]
            self._check_pin()
        s[[K.ROWS, K.MAPS, K.CUT]] = 0
        s[K.IN], s[K.KIND], s[K.XID] = 1, K.DML, -1
        s[K.SOURCE], s[K.SEQUENCE], s[K.BEGUN] = source, sequence, int(begun)

    def finish(self) -> None:
        """End a group whose last event was appended."""
        s = self.state
        if s[K.SOURCE] >= 0:
            pair = np.array([[s[K.SOURCE], s[K.SEQUENCE]]], np.int64)
            self.gtids.add(pair, self._source_texts)
        s[K.IN] = s[K.MAPS] = 0
        self._map_events.clear()
        self.resolved = max(self.resolved, int(s[K.TS]))
        self.clean = True
        self.writer.mark()
        self.mark_boundary()
        if self.due():
            self.commit(behind=True)

    # --- XA ------------------------------------------------------------------------------------

    def xid(self, xid: Xid) -> int:
        """The number of an xid, a new one if it is not in use."""
        number = self._xids.find(xid)
        if number < 0:
            number = self.writer.xid_id(str(xid))
            self._xids.put(xid, number)
        return number

    def xid_ended(self, xid: Xid) -> None:
        """The same xid is another transaction from now on."""
        self._xids.remove(xid)

    def prepared_before(self, xid: Xid) -> bool:
        """Whether it may commit without rows, as it was prepared where the log begins."""
        return str(xid) in self._prepared_before

    def xa_not_known(self, what: str) -> XaNotKnown:
        """The error where something commits whose rows are not in the log."""
        return XaNotKnown(
            f"XA COMMIT of {what}, which was prepared before the log begins",
            object="replication stream",
            position=self.here(),
            hint="create the upstream anew while XA RECOVER shows nothing",
        )

    # --- dictionaries --------------------------------------------------------------------------

    def _register_table(self, event: bytes) -> None:
        body = event[HEADER : len(event) - CHECKSUM]
        table_map = TableMap.parse(body)
        # Without the upstream's number of the table, which changes at each of its restarts.
        number = self.writer.table_id(table_map.schema, table_map.name, bytes(6) + body[6:])
        self._tables.add(number, table_map, body[6:])

    def _register_source(self, event: bytes) -> None:
        code = event[4]
        if code == EventType.MARIADB_GTID:
            (server,) = struct.unpack_from("<I", event, 5)
            (domain,) = struct.unpack_from("<I", event, HEADER + 8)
            self.source(f"{domain}-{server}", (domain, server))
        else:
            raw = event[HEADER + 1 : HEADER + 17]
            text = f"{raw[:4].hex()}-{raw[4:6].hex()}-{raw[6:8].hex()}-{raw[8:10].hex()}"
            self.source(f"{text}-{raw[10:].hex()}", struct.unpack("<qq", raw))

    def source(self, text: str, key: tuple[int, ...] | None = None) -> int:
        """Id of a GTID source; with ``key`` the kernel knows it from now on."""
        number = self.writer.source_id(text)
        self._source_texts[number] = text
        self._source_ids[text] = number
        if self.state[K.PIN_SOURCE] == _NO_SOURCE and self.state[K.PIN_TS] > 0:
            self._load_pin()
        if key is not None:
            free = np.flatnonzero(self._sources[:, 2] < 0)
            if len(free) < 2:
                more = np.full((len(self._sources), 3), -1, np.int64)
                self._sources = np.concatenate((self._sources, more))
                free = np.flatnonzero(self._sources[:, 2] < 0)
            self._sources[free[0]] = (*key, number)
        return number

    def _make_room(self) -> None:
        if self._xids.full():
            self._xids.grow()
        if self.state[K.MAPS] >= len(self._maps):
            self._maps = np.concatenate((self._maps, np.zeros_like(self._maps)))

    def _error(self, code: int) -> TidegateError:
        at = {"object": "replication stream", "position": self.here()}
        if code == K.BAD_CHECKSUM:
            return EventChecksumBad("the checksum of an event does not match its bytes", **at)
        if code == K.BAD_GROUP:
            return TransactionStructureBad("an event lies outside of a transaction", **at)
        if code == K.BAD_ROWS:
            return EventMalformed("rows do not fit to a TABLE_MAP before them", **at)
        if code == K.BAD_IMAGE:
            return EventMalformed("a row image does not end within its event", **at)
        return StreamBroken("an event has an impossible length", **at)
