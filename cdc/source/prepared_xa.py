"""XA transactions that are prepared before a log begins: their rows would never be in it."""

from __future__ import annotations

import re
import time
from typing import Any

from cdc.base.clock import Clock
from cdc.binlog.events import EventType
from cdc.binlog.query import Query
from cdc.binlog.xa import XaPrepare, Xid, parse_statement
from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import try_rows
from cdc.source.dump import events_between
from cdc.source.errors import UpstreamNotReady
from cdc.source.position import UpstreamPosition
from cdc.source.settings import SourceSettings
from cdc.source.snapshot import current_position

# MySQL since 5.7, MariaDB since 10.3, older ones. The first two print bytes that are no text.
_RECOVER = ("XA RECOVER CONVERT XID", "XA RECOVER FORMAT='SQL'", "XA RECOVER")
_POLL_S = 0.02
_SHOWN = 5


def prepared(connection: Any) -> list[Xid] | None:
    """All transactions that are prepared now; None if we may not ask (XA_RECOVER_ADMIN)."""
    found = try_rows(connection, *_RECOVER)
    return None if found is None else [_xid(row) for row in found]


def refuse_prepared(info: UpstreamInfo, found: list[Xid]) -> None:
    """Raise UpstreamNotReady with the xids, if there are any."""
    if not found:
        return
    shown = ", ".join(map(str, found[:_SHOWN])) + (", …" if len(found) > _SHOWN else "")
    raise UpstreamNotReady(
        f"{len(found)} XA transactions are prepared, whose rows are before the log: {shown}",
        object=f"upstream {info.name}",
        hint="; ".join(f"XA COMMIT {xid} or XA ROLLBACK {xid}" for xid in found[:1]),
    )


def place_without(
    connection: Any, info: UpstreamInfo, settings: SourceSettings, clock: Clock
) -> UpstreamPosition:
    """The end of the binlog, at a moment at which no transaction is prepared.

    Raises UpstreamNotReady with those that are, when the settings' patience ends. That none is
    shown is not enough: one may have been prepared before the place, and committed before we asked.
    """
    end = clock.monotonic() + settings.prepared_xa_s
    while True:
        place = current_position(connection, info.server_kind)
        left = prepared(connection) or []
        now = current_position(connection, info.server_kind)
        found = _astride(info, place, now, left, settings)
        if not found:
            return place
        if clock.monotonic() >= end:
            refuse_prepared(info, found)
        time.sleep(_POLL_S)


def _astride(
    info: UpstreamInfo,
    low: UpstreamPosition,
    high: UpstreamPosition,
    left: list[Xid],
    settings: SourceSettings,
) -> list[Xid]:
    """Those prepared before ``low`` that commit up to ``high``, or are ``left`` there."""
    inside: set[Xid] = set()
    found: list[Xid] = []
    for event in events_between(info, low, high, settings):
        if event.type == EventType.XA_PREPARE:
            prepare = XaPrepare.parse(event.body)
            if not prepare.one_phase:
                inside.add(prepare.xid)
        elif event.type == EventType.QUERY:
            said = parse_statement(Query.parse(event.body).sql)
            if said is not None and said[1] in inside:
                inside.discard(said[1])
            elif said is not None and said[0] == "COMMIT":
                found.append(said[1])
    return found + [xid for xid in left if xid not in inside and xid not in found]


def _xid(row: dict[str, Any]) -> Xid:
    data, gtrid_length = row["data"], int(row["gtrid_length"])
    if isinstance(data, str) and re.match(r"X'|0x[0-9a-fA-F]*\Z", data):
        if data.startswith("X"):
            return Xid.parse_text(data)
        data = bytes.fromhex(data[2:])
    whole = data.encode() if isinstance(data, str) else bytes(data)
    return Xid(int(row["formatid"]), whole[:gtrid_length], whole[gtrid_length:])
