"""Where a server stands: its clock, its identity, the end of its binlog, how often it was reset."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cdc.source.connection import rows, try_rows

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# Of `uuid:5#12:6#13`: the connections that own a GTID.
_OWNERS = re.compile(r"#\d+")
# Nothing parts the last of one source from the uuid of the next; its first eight digits end it.
_LAST_OWNER = re.compile(rf"#\d+?(?={_UUID})", re.IGNORECASE)
CLOCK = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED) AS t"


@dataclass(frozen=True, slots=True)
class ServerStanding:
    """One answer of a server, asked in the order of the fields.

    ``clock_us``: its wall clock in microseconds. ``owned``: GTIDs of transactions that commit just
    now; a dump may have sent them already. ``executed``: GTIDs that it has, ``None`` where they are
    off (and of MariaDB, where file and offset count). ``purged``: those of them that no dump will
    send. ``resets``: RESET statements since its start, counted before they begin.
    ``created``: header time of the binlog file that we read, 0 if there is no such file; ``None``:
    not looked at. ``written_by``: server_id there, asked with it. ``first_file``: number of the
    oldest binlog file, asked with it.
    """

    clock_us: int
    uuid: str
    server_id: int
    owned: str
    file: str
    pos: int
    executed: str | None
    purged: str
    resets: int
    created: int | None = None
    written_by: int = 0
    first_file: int = 0


def gtids_owned(connection: Any) -> str:
    """GTIDs of MySQL that sessions own just now, as a GTID set."""
    found = str(rows(connection, "SELECT @@global.gtid_owned AS g")[0]["g"] or "")
    return without_owners(found)


def without_owners(owned: str) -> str:
    """The GTID set of a ``gtid_owned``, which also names the connection of each."""
    return _OWNERS.sub("", _LAST_OWNER.sub(",", owned)).replace("\n", "")


def ask_standing(connection: Any, server_kind: str) -> ServerStanding:
    """Ask a server. PyMySQL's errors pass through."""
    mariadb = server_kind == "mariadb"
    clock = int(rows(connection, CLOCK)[0]["t"])
    owned = purged = uuid = ""
    executed: str | None = None
    if mariadb:
        ids = rows(connection, "SELECT @@global.server_id AS id")[0]
    else:
        ids = rows(connection, "SELECT @@server_uuid AS u, @@server_id AS id, @@gtid_mode AS m")[0]
        uuid = str(ids["u"])
        owned = gtids_owned(connection)
    found = try_rows(connection, "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
    status = found[0] if found else {}
    if not mariadb and ids["m"] == "ON":
        executed = str(status.get("executed_gtid_set", "")).replace("\n", "")
        purged = str(rows(connection, "SELECT @@global.gtid_purged AS g")[0]["g"] or "")
    # Last: whoever reads an old count here has read all the rest before a reset began.
    resets = rows(connection, "SHOW GLOBAL STATUS LIKE 'Com_reset'")
    return ServerStanding(
        clock_us=clock,
        uuid=uuid,
        server_id=int(ids["id"]),
        owned=owned,
        file=str(status.get("file", "")),
        pos=int(status.get("position", 4)),
        executed=executed,
        purged=purged.replace("\n", ""),
        resets=int(resets[0]["value"]) if resets else 0,
    )
