"""XA transactions that are prepared before a log begins: their rows would never be in it."""

from __future__ import annotations

import re
import time
from typing import Any

from cdc.base.clock import Clock
from cdc.binlog.xa import Xid
from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import try_rows
from cdc.source.errors import UpstreamNotReady

# MySQL since 5.7, MariaDB since 10.3, older ones. The first two print bytes that are no text.
_RECOVER = ("XA RECOVER CONVERT XID", "XA RECOVER FORMAT='SQL'", "XA RECOVER")
_POLL_S = 0.1
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


def wait_for_none(connection: Any, clock: Clock, patience_s: float) -> list[Xid]:
    """Wait until no transaction is prepared; those that are left when patience ends."""
    end = clock.monotonic() + patience_s
    while (found := prepared(connection) or []) and clock.monotonic() < end:
        time.sleep(_POLL_S)
    return found


def _xid(row: dict[str, Any]) -> Xid:
    data, gtrid_length = row["data"], int(row["gtrid_length"])
    if isinstance(data, str) and re.match(r"X'|0x[0-9a-fA-F]*\Z", data):
        if data.startswith("X"):
            return Xid.parse_text(data)
        data = bytes.fromhex(data[2:])
    whole = data.encode() if isinstance(data, str) else bytes(data)
    return Xid(int(row["formatid"]), whole[:gtrid_length], whole[gtrid_length:])
