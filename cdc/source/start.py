"""Where a log begins that is to begin in the past: a GTID set, a file's offset, or a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pymysql

from cdc.base.errors import InvalidError
from cdc.base.ts import Ts, compose
from cdc.binlog.errors import GtidTextBad
from cdc.binlog.events import EventType
from cdc.binlog.gtid import Gtid
from cdc.binlog.gtid_list import GtidList, parse_previous_gtids
from cdc.binlog.gtid_set import GtidSet, MariadbGtidPosition
from cdc.binlog.query import Query
from cdc.binlog.statement import first_word
from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import open_connection, query_error, rows
from cdc.source.dump import dump_events, read_dump
from cdc.source.errors import BinlogPurged, UpstreamReset
from cdc.source.position import UpstreamPosition, file_number
from cdc.source.rolled_back import goes_back
from cdc.source.settings import SourceSettings

_HINT = "a GTID set, FILE:POSITION or a time like 2026-11-20T12:00:00Z"
_FILE = re.compile(r"(?P<file>.+\.\d{6,}):(?P<pos>\d{1,19})\Z")
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[ T].*)?\Z")
_MYSQL_GTIDS = re.compile(r"[0-9a-fA-F]{8}-")
_MARIADB_GTIDS = re.compile(r"\d+-\d+-")
_GTID_EVENTS = frozenset(
    {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID}
)
_ENDS = frozenset({EventType.XID, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD})


class StartInvalid(InvalidError):
    """A start position that does not parse, or that the server cannot serve."""

    code = "TG:ErrUpstreamStartInvalid"


def find_start(
    info: UpstreamInfo, start: str, end: UpstreamPosition, settings: SourceSettings
) -> tuple[UpstreamPosition, Ts]:
    """Position of a start text, and a ts below everything behind it.

    ``end`` is the server's position now. Raises StartInvalid, BinlogPurged.
    """
    at_file = _FILE.match(start)
    if at_file is not None:
        return _at_file(info, at_file["file"], int(at_file["pos"]), end, settings)
    if _TIME.match(start):
        return _at_time(info, start, end, settings)
    gtids = _MARIADB_GTIDS if info.server_kind == "mariadb" else _MYSQL_GTIDS
    if not gtids.match(start):
        raise StartInvalid(f"{start!r} is no start position", hint=_HINT)
    if end.gtid is None:
        raise StartInvalid("the server has no GTIDs", object=_name(info), hint="FILE:POSITION")
    position = UpstreamPosition("", 4, start)
    if info.server_kind == "mariadb":
        _check_mariadb(info, position, settings)
    else:
        _check_mysql(info, position, settings)
    return position, 1


def _name(info: UpstreamInfo) -> str:
    return f"upstream {info.name}"


def _purged(info: UpstreamInfo, what: str) -> BinlogPurged:
    return BinlogPurged(what, object=_name(info), hint="start later")


def _ask(
    info: UpstreamInfo, settings: SourceSettings, sql: str, *args: Any
) -> list[dict[str, Any]]:
    connection = open_connection(info, settings)
    try:
        return rows(connection, sql, *args)
    except pymysql.err.MySQLError as error:
        raise query_error(error, _name(info)) from None
    finally:
        connection.close()


# --- GTIDs -------------------------------------------------------------------------------------


def _check_mysql(info: UpstreamInfo, position: UpstreamPosition, settings: SourceSettings) -> None:
    try:
        asked = GtidSet.parse(position.gtid or "")
    except GtidTextBad as error:
        raise StartInvalid(error.message, object=_name(info), hint=_HINT) from None
    sql = "SELECT @@global.gtid_executed AS executed, @@global.gtid_purged AS purged"
    (have,) = _ask(info, settings, sql)
    strange = asked.subtract(GtidSet.parse(str(have["executed"] or "")))
    if strange:
        raise StartInvalid(f"the server never had {strange}", object=_name(info), hint=_HINT)
    gone = GtidSet.parse(str(have["purged"] or "")).subtract(asked)
    if gone:
        raise _purged(info, f"the server no longer holds {gone}, which come after the start")


def _check_mariadb(
    info: UpstreamInfo, position: UpstreamPosition, settings: SourceSettings
) -> None:
    try:
        MariadbGtidPosition.parse(position.gtid or "")
    except GtidTextBad as error:
        raise StartInvalid(error.message, object=_name(info), hint=_HINT) from None
    try:
        # Only the server itself can tell whether it finds the place.
        next(dump_events(info, position, settings), None)
    except UpstreamReset as error:
        raise StartInvalid(error.message, object=_name(info), hint=_HINT) from None


# --- files -------------------------------------------------------------------------------------


def _at_time(
    info: UpstreamInfo, text: str, end: UpstreamPosition, settings: SourceSettings
) -> tuple[UpstreamPosition, Ts]:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise StartInvalid(f"{text!r} is no time", hint=_HINT) from None
    seconds = at.replace(tzinfo=at.tzinfo or UTC).timestamp()
    (now,) = _ask(info, settings, "SELECT UNIX_TIMESTAMP() AS t")
    if seconds > int(now["t"]):
        raise StartInvalid(f"{text!r} is in the future", hint=_HINT)
    for file in reversed(_files(info, settings)):
        position, ts = _at_file(info, file, 4, end, settings)
        if position.created <= seconds:
            return position, ts
    raise _purged(info, "the server holds no binlog of that time")


def _files(info: UpstreamInfo, settings: SourceSettings) -> dict[str, int]:
    found = _ask(info, settings, "SHOW BINARY LOGS")
    return {str(r["log_name"]): int(r["file_size"]) for r in found}


def _at_file(
    info: UpstreamInfo, file: str, pos: int, end: UpstreamPosition, settings: SourceSettings
) -> tuple[UpstreamPosition, Ts]:
    sizes = _files(info, settings)
    if file not in sizes:
        first = next(iter(sizes), "")
        if file.rpartition(".")[0] == first.rpartition(".")[0] and (
            0 <= file_number(file) < file_number(first)
        ):
            raise _purged(info, f"the server no longer holds {file}")
        raise StartInvalid(f"the server has no {file}", object=_name(info), hint=_HINT)
    if not 4 <= pos <= sizes[file]:
        raise StartInvalid(
            f"{file} has {sizes[file]} bytes",
            object=_name(info),
            position=f"{file}:{pos}",
            hint=_HINT,
        )
    gtid, created = _scan(info, file, pos, settings)
    if info.server_kind == "mariadb" and pos > 4:
        sql = "SELECT BINLOG_GTID_POS(%s, %s) AS g"
        gtid = str(_ask(info, settings, sql, file, pos)[0]["g"] or "")
    ts = max(1, compose(created * 1000) - 1)
    return UpstreamPosition(file, pos, gtid if end.gtid is not None else None, created), ts


def _scan(
    info: UpstreamInfo, file: str, pos: int, settings: SourceSettings
) -> tuple[str | None, int]:
    """GTIDs (of MariaDB: of the file's head) before an offset, and the file's time.

    Raises StartInvalid where no transaction begins at the offset: it says where the one does in
    which that lies.
    """
    created, at, listed, began = 0, 4, False, 4
    state = _Group()
    gtids: GtidSet | None = None
    position: MariadbGtidPosition | None = None
    for event in read_dump(info, UpstreamPosition(file, 4, None), settings):
        if event.file != file or (listed and at >= pos):
            break
        if event.type == EventType.FORMAT_DESCRIPTION:
            created = event.header.timestamp
        elif event.type == EventType.PREVIOUS_GTIDS:
            gtids, listed = parse_previous_gtids(event.body), True
        elif event.type == EventType.MARIADB_GTID_LIST:
            position, listed = MariadbGtidPosition(), True
            for one in GtidList.parse(event.body).gtids:
                position = position.advance(one)
        elif event.header.next_position and event.type != EventType.ROTATE:
            # A server without GTIDs (MySQL 5.6) writes no list.
            listed = True
            if at >= pos:
                break
            if not state.open:
                began = at
            gtids = state.take(event.type, event.body, gtids)
        at = max(at, event.header.next_position)
    if pos > 4 and (at != pos or state.open):
        raise StartInvalid(
            "no transaction begins there",
            object=_name(info),
            position=f"{file}:{pos}",
            hint=f"{file}:{began}, where the transaction begins in which it lies",
        )
    text = gtids if position is None else position
    return (None if text is None else str(text)), created


class _Group:
    """Whether an event group is open, and the GTIDs of those that were."""

    def __init__(self) -> None:
        self.open = False
        self._begun = False

    def take(self, code: int, body: bytes, gtids: GtidSet | None) -> GtidSet | None:
        """Take one event; the GTIDs with those that it adds."""
        if code in _GTID_EVENTS:
            self.open, self._begun = True, False
            if gtids is not None and code in (EventType.GTID, EventType.GTID_TAGGED):
                tagged = code == EventType.GTID_TAGGED
                one = Gtid.parse_tagged(body) if tagged else Gtid.parse(body)
                return gtids.add(one.source, one.gno)
        elif code in _ENDS:
            self.open = self._begun = False
        elif code == EventType.QUERY:
            self._query(Query.parse(body).sql)
        return gtids

    def _query(self, sql: str) -> None:
        word = first_word(sql)
        if word == "BEGIN" or sql.upper().startswith("XA START"):
            self.open = self._begun = True
        elif goes_back(sql):
            return
        elif word in ("COMMIT", "ROLLBACK") or not self._begun:
            self.open = self._begun = word == "SAVEPOINT"
