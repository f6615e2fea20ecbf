"""Whether a server's history is still the one that we pulled: never a silent gap."""

from __future__ import annotations

import pymysql

from cdc.binlog.events import EventType
from cdc.binlog.gtid_set import GtidSet
from cdc.binlog.header import EventHeader
from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import open_connection, query_error, rows, try_rows
from cdc.source.dump import dump_events
from cdc.source.errors import BinlogPurged, UpstreamReset
from cdc.source.position import UpstreamPosition, file_number
from cdc.source.server_standing import gtids_owned
from cdc.source.settings import SourceSettings

HISTORY_HINT = "remove the upstream and create it anew: its history was replaced"


def check_history(info: UpstreamInfo, position: UpstreamPosition, settings: SourceSettings) -> None:
    """Compare server identity, GTIDs and the file of ``position`` with what we know.

    Raises UpstreamReset or BinlogPurged where pulling on from ``position`` would leave a gap.
    """
    connection = open_connection(info, settings)
    try:
        other = _check_identity(connection, info, position)
        files = try_rows(connection, "SHOW BINARY LOGS")
    except pymysql.err.MySQLError as error:
        raise query_error(error, f"upstream {info.name}") from None
    finally:
        connection.close()
    if files is None or not position.file:
        return
    names = {file_number(str(f["log_name"])): int(f["file_size"]) for f in files}
    _check_file(info, position, names, other)
    if position.created and file_number(position.file) in names:
        created, written_by = file_head(info, position.file, settings)
        if created and position.in_other_file(created, written_by):
            raise _reset(info, position, f"{other}{position.file} is not the file that we read")


def _reset(info: UpstreamInfo, position: UpstreamPosition, why: str) -> UpstreamReset:
    return UpstreamReset(
        why, object=f"upstream {info.name}", position=str(position), hint=HISTORY_HINT
    )


def _check_identity(
    connection: pymysql.connections.Connection, info: UpstreamInfo, position: UpstreamPosition
) -> str:
    """Compare what identifies the server; what to say where files show that it is another one."""
    if info.server_kind == "mariadb":
        # It has no uuid, and its server_id may be changed; the files decide.
        number = int(rows(connection, "SELECT @@global.server_id AS id")[0]["id"])
        same = not info.server_id or number == info.server_id
        return "" if same else f"the server is another one, with server_id {number}: "
    uuid = str(rows(connection, "SELECT @@server_uuid AS u")[0]["u"])
    if info.server_uuid and uuid != info.server_uuid:
        raise _reset(info, position, f"the server is another one: its uuid is {uuid}")
    if position.gtid is not None:
        # A dump sends what is about to commit, and a semi-synchronous source may wait there. First,
        # as a GTID goes from owned to executed.
        owned = GtidSet.parse(gtids_owned(connection))
        executed = str(rows(connection, "SELECT @@global.gtid_executed AS g")[0]["g"] or "")
        missing = GtidSet.parse(position.gtid).subtract(GtidSet.parse(executed).union(owned))
        if missing:
            raise _reset(info, position, f"the server never had {missing}")
    return ""


def _check_file(
    info: UpstreamInfo, position: UpstreamPosition, names: dict[int, int], other: str
) -> None:
    number = file_number(position.file)
    if not names or number > max(names):
        raise _reset(info, position, f"{other}the server has no {position.file} yet")
    if number in names and names[number] < position.pos:
        raise _reset(info, position, f"{other}{position.file} has only {names[number]} bytes")
    if number not in names and other:
        raise _reset(info, position, f"{other}it does not hold {position.file}")
    if number not in names and position.gtid is None:
        raise BinlogPurged(
            f"the server no longer holds {position.file}",
            object=f"upstream {info.name}",
            position=str(position),
            hint="keep binlogs for longer on the server, and create the upstream anew",
        )


def file_head(info: UpstreamInfo, file: str, settings: SourceSettings) -> tuple[int, int]:
    """Header time and server_id of a binlog file's FORMAT_DESCRIPTION; 0, 0 if it is not shown."""
    for event in dump_events(info, UpstreamPosition(file, 4, None), settings):
        header = EventHeader.parse(event)
        if header.type_code == EventType.FORMAT_DESCRIPTION:
            return header.timestamp, header.server_id
    return 0, 0
