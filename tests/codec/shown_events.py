"""Where a server says that its rows stand: SHOW BINLOG EVENTS."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tests.servers import Database

_GTID = re.compile(r"(\d+-\d+-\d+|[0-9a-f-]{36}:\d+)")


class ShownEvent(NamedTuple):
    """A rows event: its table, its offset, who wrote it, and the GTID of its transaction."""

    table: str
    pos: int
    server_id: int
    gtid: str | None


def shown_events(server: Database, file: str) -> list[ShownEvent]:
    """The rows events of a binlog file, in its order."""
    found: list[ShownEvent] = []
    table, gtid = "", None
    rows: list[tuple[Any, ...]] = server.execute(f"SHOW BINLOG EVENTS IN '{file}'")
    for _, pos, kind, server_id, _, info in rows:
        if kind in ("Gtid", "Anonymous_Gtid"):
            named = _GTID.search(info)
            gtid = named[1] if named else None
        elif kind == "Table_map":
            table = info.partition("(")[2].rstrip(")")
        elif re.match(r"(Write|Update|Delete)_rows", kind):
            found.append(ShownEvent(table, pos, server_id, gtid))
    return found
