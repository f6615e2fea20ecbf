"""Registering an upstream: check, snapshot, and the place where its log begins."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql

from cdc.base.clock import Clock
from cdc.base.position import Position
from cdc.base.ts import Ts, from_micros
from cdc.changelog import snapshots
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import UpstreamFinding, UpstreamInfo
from cdc.schema.snapshot import Wanted, listed_copies
from cdc.source.agreeing import agrees
from cdc.source.coming import Coming
from cdc.source.connection import open_connection, query_error, rows
from cdc.source.ddl_scan import has_ddl_between
from cdc.source.errors import UpstreamGone, UpstreamOtherServer, UpstreamReset
from cdc.source.history import check_history, file_head
from cdc.source.position import UpstreamPosition, file_number
from cdc.source.prepared_xa import place_without
from cdc.source.readiness import Finding, check_upstream, describe, refuse_unready
from cdc.source.settings import SourceSettings
from cdc.source.snapshot import take_snapshot
from cdc.source.start import StartInvalid, find_start
from cdc.source.statements import History

_ATTEMPTS = 3


def register(
    asked: UpstreamInfo,
    writer: LogWriter,
    settings: SourceSettings,
    clock: Clock,
    start: str | None = None,
) -> UpstreamInfo:
    """Check the server, take the schema snapshot and begin the log; the info completed.

    ``start``: a GTID set, ``FILE:POSITION`` or an ISO time (which begins the binlog file that
    holds this time); ``None`` is now. Raises UpstreamNotReady (also for XA transactions that are
    prepared and not ended), StartInvalid, BinlogPurged.
    """
    findings = check_upstream(asked, settings)
    refuse_unready(asked, findings)
    connection = open_connection(asked, settings)
    try:
        info = asked.model_copy(update=describe(connection))
        sql = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED) AS t"
        micros = int(rows(connection, sql)[0]["t"])
    except pymysql.err.MySQLError as error:
        raise query_error(error, f"upstream {asked.name}") from None
    finally:
        connection.close()
    end, snapshot = take_snapshot(info, settings) if start else _begin_now(info, settings, clock)
    position, ts = end, from_micros(micros)
    if start:
        position, ts = find_start(info, start, end, settings)
        if has_ddl_between(info, position, end, settings):
            raise StartInvalid(
                "tables were changed since then, so the schema of that place is not known",
                object=f"upstream {info.name}",
                position=str(position),
                hint="start behind the last DDL",
            )
    if position.file and not position.written_by:
        # Known before the first dump, so a reset in between is seen by it.
        created, written_by = file_head(info, position.file, settings)
        position = replace(position, created=created, written_by=written_by)
    writer.save_snapshot(ts, {**snapshot, "ts": ts})
    writer.begin(ts, position.to_dict())
    return info.model_copy(update={"start": position.to_dict(), "findings": _advice(findings)})


def recheck(info: UpstreamInfo, folder: Path, settings: SourceSettings) -> UpstreamInfo:
    """The upstream with what is advised now, if its access leads to the server of its log.

    Asked is what each connection of the puller asks: identity, GTIDs, and the file that was read
    last. Raises UpstreamOtherServer, BinlogPurged, UpstreamNotReady, UpstreamGone.
    """
    findings = check_upstream(info, settings)
    refuse_unready(info, findings)
    connection = open_connection(info, settings)
    try:
        kind = str(describe(connection)["server_kind"])
    except pymysql.err.MySQLError as error:
        raise query_error(error, f"upstream {info.name}") from None
    finally:
        connection.close()
    if kind != info.server_kind:
        raise _other_server(info, f"the server is of {kind}, and the log of {info.server_kind}")
    with closing(ChangeLog.open(folder)) as log:
        position = UpstreamPosition.from_dict(log.state.position)
    try:
        check_history(info, position, settings)
    except UpstreamReset as error:
        raise _other_server(info, error.message, error.position) from None
    return info.model_copy(update={"findings": _advice(findings)})


def _other_server(info: UpstreamInfo, why: str, position: str = "") -> UpstreamOtherServer:
    return UpstreamOtherServer(
        why,
        object=f"upstream {info.name}",
        position=position,
        hint="name the server whose changes the log has, or create another upstream",
    )


def _advice(findings: list[Finding]) -> list[UpstreamFinding]:
    return [UpstreamFinding(what=f.what, statement=f.statement) for f in findings if not f.fatal]


def _begin_now(
    info: UpstreamInfo, settings: SourceSettings, clock: Clock
) -> tuple[UpstreamPosition, dict[str, Any]]:
    """A place that no prepared XA transaction straddles, and the schema there."""
    connection = open_connection(info, settings)
    try:
        for _ in range(_ATTEMPTS):
            end, snapshot = take_snapshot(info, settings)
            place = place_without(connection, info, settings, clock)
            if not has_ddl_between(info, end, place, settings):
                return place, snapshot
    except pymysql.err.MySQLError as error:
        raise query_error(error, f"upstream {info.name}") from None
    finally:
        connection.close()
    raise UpstreamGone(
        "tables changed each time that a place without prepared XA transactions was found",
        object=f"upstream {info.name}",
        hint="try again when fewer statements change tables",
    )


def schema_now(
    info: UpstreamInfo,
    folder: Path,
    settings: SourceSettings,
    clock: Clock,
    wanted: Wanted | None = None,
) -> tuple[Ts, bool]:
    """``(ts, new)``: a ts of now at which the log knows the schema of the wanted tables.

    Where these are on the server as the log's statements have left them, nothing is ``new``; else,
    and where all are wanted, a snapshot of all is taken and kept with the log. So a changefeed of a
    few tables does not wait for the definitions of all, and one of tables that changed past the
    binlog gets them as they are.
    Waits for the puller to pass the snapshot's position. Raises UpstreamGone if it does not.
    """
    if wanted is not None:
        position, read = take_snapshot(info, settings, wanted)
        with closing(ChangeLog.open(folder)) as log:
            ts = _passed(log, position, info, settings, clock)
            if agrees(History(log, ts).schema_at(ts), read, wanted):
                return ts, False
    position, snapshot = take_snapshot(info, settings)
    log = ChangeLog.open(folder)
    try:
        ts = _passed(log, position, info, settings, clock)
        # The server does not tell by what statements its tables were made.
        copies = listed_copies(History(log, ts).versions.at(ts))
    finally:
        log.close()
    snapshots.save(folder, ts, {**snapshot, "ts": ts, "copies": copies})
    return ts, True


def _passed(
    log: ChangeLog,
    position: UpstreamPosition,
    info: UpstreamInfo,
    settings: SourceSettings,
    clock: Clock,
) -> Ts:
    state = log.refresh()
    first = state.resolved_ts
    coming = Coming(first, settings, clock)
    while not UpstreamPosition.from_dict(state.position).covers(position, info.server_kind):
        if coming.given_up(state.resolved_ts):
            raise UpstreamGone(
                "the log has not reached the end of the binlog in time",
                object=f"upstream {info.name}",
                position=str(position),
                hint="see the upstream's status",
            )
        state = log.wait(state.resolved_ts, 0.2)
    ts = state.resolved_ts
    # The log may be further than the snapshot: it then holds only below the next DDL.
    place = (file_number(position.file), position.pos)
    ddls = log.ddls(max(state.first_ts, first - 1), ts) if first - 1 < ts else None
    if ddls is not None:
        for i in range(len(ddls)):
            if (int(ddls.upstream_file[i]), int(ddls.upstream_pos[i])) >= place:
                return min(ts, Position(int(ddls.commit_ts[i])).ts - 1)
    return ts
