"""The typed form of any event, whichever its type."""

from __future__ import annotations

from collections.abc import Callable

from cdc.base.errors import TidegateError
from cdc.binlog import control
from cdc.binlog.events import ROWS, EventType
from cdc.binlog.format_description import FormatDescription
from cdc.binlog.gtid import Gtid, MariadbGtidEvent
from cdc.binlog.gtid_list import GtidList, parse_previous_gtids
from cdc.binlog.gtid_set import GtidSet
from cdc.binlog.header import HEADER_LENGTH
from cdc.binlog.payload import PayloadHeader
from cdc.binlog.query import Query
from cdc.binlog.reader import Event, located
from cdc.binlog.rows_header import RowsHeader
from cdc.binlog.table_map import TableMap
from cdc.binlog.xa import XaPrepare

Decoded = (
    FormatDescription
    | control.Rotate
    | control.Heartbeat
    | control.Incident
    | Gtid
    | MariadbGtidEvent
    | GtidList
    | GtidSet
    | Query
    | TableMap
    | RowsHeader
    | PayloadHeader
    | XaPrepare
    | tuple[int, int]
    | int
    | str
    | None
)

_T = EventType
_BY_BODY: dict[EventType, Callable[[bytes], Decoded]] = {
    _T.ROTATE: control.Rotate.parse,
    _T.HEARTBEAT: control.Heartbeat.parse,
    _T.HEARTBEAT_V2: control.Heartbeat.parse_v2,
    _T.INCIDENT: control.Incident.parse,
    _T.XID: control.parse_xid,
    _T.ROWS_QUERY: control.parse_rows_query,
    _T.MARIADB_ANNOTATE_ROWS: control.parse_annotate_rows,
    _T.INTVAR: control.parse_intvar,
    _T.VIEW_CHANGE: control.parse_view_change,
    _T.MARIADB_BINLOG_CHECKPOINT: control.parse_checkpoint,
    _T.GTID: Gtid.parse,
    _T.ANONYMOUS_GTID: Gtid.parse,
    _T.GTID_TAGGED: Gtid.parse_tagged,
    _T.PREVIOUS_GTIDS: parse_previous_gtids,
    _T.MARIADB_GTID_LIST: GtidList.parse,
    _T.QUERY: Query.parse,
    _T.TABLE_MAP: TableMap.parse,
    _T.TRANSACTION_PAYLOAD: PayloadHeader.parse,
    _T.XA_PREPARE: XaPrepare.parse,
}


def decode(event: Event) -> Decoded:
    """What the event says; ``None`` for a type whose body we have no use for.

    TABLE_MAP and QUERY are checked to the last optional field. Errors name the event's place.
    """
    try:
        if event.type is _T.FORMAT_DESCRIPTION:
            return FormatDescription.parse(event.data[HEADER_LENGTH:])
        if event.type is _T.MARIADB_GTID:
            return MariadbGtidEvent.parse(event.body, event.header.server_id)
        if event.type in ROWS:
            return RowsHeader.parse(event.type, event.body)
        parse = _BY_BODY.get(event.type)
        if parse is None:
            return None
        decoded = parse(event.body)
        if isinstance(decoded, TableMap):
            decoded.details(event.dialect)
        elif isinstance(decoded, Query):
            decoded.status()
        return decoded
    except TidegateError as error:
        raise located(error, event.where) from None
