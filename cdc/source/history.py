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
from cdc.source.settings import SourceSettings

_HINT = "remove the upstream and create it anew: its history was replaced"


def check_history(info: UpstreamInfo, position: UpstreamPosition, settings: SourceSettings) -> None:
    """Compare server identity, GTIDs and the file of ``position`` with what we know.

    Raises UpstreamReset or BinlogPurged where pulling on from ``position`` would leave a gap.
    """
    connection = open_connection(info, settings)
    try:
        _check_identity(connection, info, position)
        files = try_rows(connection, "SHOW BINARY LOGS")
    except pymysql.err.MySQLError as error:
        raise query_error(error, f"upstream {info.name}") from None
    finally:
        connection.close()
    if files is None or not position.file:
        return
    names = {file_number(str(f["log_name"])): int(f["file_size"]) for f in files}
    _check_file(info, position, names)
    if position.created and file_number(position.file) in names:
        created = file_created(info, position.file, settings)
        if created and created != position.created:
            raise _reset(info, position, f"{position.file} is not the file that we read")


def _reset(info: UpstreamInfo, position: UpstreamPosition, why: str) -> UpstreamReset:
    return UpstreamReset(why, object=f"upstream {info.name}", position=str(position), hint=_HINT)


def _check_identity(
    connection: pymysql.connections.Connection, info: UpstreamInfo, position: UpstreamPosition
) -> None:
    if info.server_kind == "mariadb":
        return
    found = rows(connection, "SELECT @@server_uuid AS u, @@gtid_mode AS m, @@gtid_executed AS g")[0]
    if info.server_uuid and found["u"] != info.server_uuid:
        raise _reset(info, position, f"the server is another one: its uuid is {found['u']}")
    if position.gtid is not None:
        missing = GtidSet.parse(position.gtid).subtract(GtidSet.parse(str(found["g"] or "")))
        if missing:
            raise _reset(info, position, f"the server never had {missing}")


def _check_file(info: UpstreamInfo, position: UpstreamPosition, names: dict[int, int]) -> None:
    number = file_number(position.file)
    if not names or number > max(names):
        raise _reset(info, position, f"the server has no {position.file} yet")
    if number in names and names[number] < position.pos:
        raise _reset(info, position, f"{position.file} has only {names[number]} bytes")
    if number not in names and position.gtid is None:
        raise BinlogPurged(
            f"the server no longer holds {position.file}",
            object=f"upstream {info.name}",
            position=str(position),
            hint="keep binlogs for longer on the server, and create the upstream anew",
        )


def file_created(info: UpstreamInfo, file: str, settings: SourceSettings) -> int:
    """Header time of a binlog file's FORMAT_DESCRIPTION; 0 if the server does not show it."""
    for event in dump_events(info, UpstreamPosition(file, 4, None), settings):
        header = EventHeader.parse(event)
        if header.type_code == EventType.FORMAT_DESCRIPTION:
            return header.timestamp
    return 0
