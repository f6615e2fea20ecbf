"""What an upstream must have before it can be pulled, and the statement that mends each lack."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pymysql

from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import open_connection, parse_uri, query_error, rows, variables
from cdc.source.errors import UpstreamNotReady
from cdc.source.prepared_xa import prepared
from cdc.source.settings import SourceSettings

_DAY_S = 86400
_ALL = re.compile(r"GRANT (?P<what>.*?) ON \*\.\*", re.I)


@dataclass(frozen=True, slots=True)
class Finding:
    """One lack. Pulling is refused while there is a ``fatal`` one; others are advice."""

    what: str
    statement: str
    fatal: bool = True


def check_upstream(info: UpstreamInfo, settings: SourceSettings) -> list[Finding]:
    """Everything that is missing. Raises only where the server cannot be asked."""
    connection = open_connection(info, settings)
    try:
        values = variables(connection)
        grants = [str(next(iter(r.values()))) for r in rows(connection, "SHOW GRANTS")]
        kind = server_kind(values["version"])
        user = parse_uri(info.uri).user
        found = [*settings_findings(values, kind), *grant_findings(grants, kind, user)]
        if prepared(connection) is None:
            statement = f"GRANT XA_RECOVER_ADMIN ON *.* TO {_quoted(user)}"
            found.append(Finding("prepared XA transactions cannot be seen", statement, fatal=False))
        return found
    except pymysql.err.MySQLError as error:
        raise query_error(error, f"upstream {info.name}") from None
    finally:
        connection.close()


def refuse_unready(info: UpstreamInfo, findings: list[Finding]) -> None:
    """Raise UpstreamNotReady with all fatal findings, if there are any."""
    fatal = [f for f in findings if f.fatal]
    if fatal:
        raise UpstreamNotReady(
            "; ".join(f.what for f in fatal),
            object=f"upstream {info.name}",
            hint="; ".join(f.statement for f in fatal),
        )


def server_kind(version: str) -> str:
    """``mariadb`` or ``mysql``."""
    return "mariadb" if "mariadb" in version.lower() else "mysql"


def settings_findings(values: dict[str, str], kind: str) -> list[Finding]:
    """Lacks of the server's settings."""
    found: list[Finding] = []
    if values.get("log_bin", "OFF") != "ON":
        how = "start the server with --log-bin --server-id=1 --binlog-format=ROW"
        return [Finding("the server writes no binlog", how)]
    if values.get("server_id", "0") == "0":
        found.append(Finding("server_id is 0", "SET GLOBAL server_id = 1"))
    for name, want in (("binlog_format", "ROW"), ("binlog_row_image", "FULL")):
        have = values.get(name, want)
        if have.upper() != want:
            found.append(Finding(f"{name} is {have}", f"SET GLOBAL {name} = '{want}'"))
    if values.get("binlog_row_value_options", ""):
        statement = "SET GLOBAL binlog_row_value_options = ''"
        found.append(Finding("JSON columns are logged in part", statement))
    if kind == "mysql" and values.get("gtid_mode", "OFF") != "ON":
        how = "SET GLOBAL gtid_mode = ON, step by step as the manual of MySQL says"
        found.append(Finding("GTIDs are off; file and offset are used", how, fatal=False))
    metadata = values.get("binlog_row_metadata", "FULL")
    if metadata.upper() != "FULL":
        what = f"binlog_row_metadata is {metadata}: column names are not checked, only types"
        statement = "SET GLOBAL binlog_row_metadata = 'FULL'"
        found.append(Finding(what, statement, fatal=False))
    return [*found, *_retention_findings(values)]


def _retention_findings(values: dict[str, str]) -> list[Finding]:
    # MariaDB takes parts of a day, and shows one setting in both units.
    seconds = values.get("binlog_expire_logs_seconds", "0")
    days = values.get("expire_logs_days", "0")
    found: list[Finding] = []
    if 0 < float(seconds) < _DAY_S:
        statement = "SET GLOBAL binlog_expire_logs_seconds = 259200"
        found.append(Finding(f"binlogs are kept for {seconds} s only", statement, fatal=False))
    elif 0 < float(days) < 1:
        statement = "SET GLOBAL expire_logs_days = 3"
        found.append(Finding(f"binlogs are kept for {days} days only", statement, fatal=False))
    total = values.get("max_binlog_total_size", "0")
    if int(total):
        what = f"binlogs are kept up to {total} bytes only, whatever still reads them"
        statement = "SET GLOBAL max_binlog_total_size = 0"
        found.append(Finding(what, statement, fatal=False))
    return found


def grant_findings(grants: list[str], kind: str, user: str) -> list[Finding]:
    """Privileges that are missing, judged from SHOW GRANTS."""
    have: set[str] = set()
    for grant in grants:
        match = _ALL.match(grant)
        if match is not None:
            have.update(p.strip().upper() for p in match["what"].split(","))
    if {"ALL PRIVILEGES", "ALL"} & have:
        return []
    status = {"REPLICATION CLIENT", "BINLOG MONITOR", "SUPER"}
    client = "BINLOG MONITOR" if kind == "mariadb" else "REPLICATION CLIENT"
    wanted: list[tuple[set[str], str]] = [
        ({"REPLICATION SLAVE", "REPLICATION REPLICA"}, "REPLICATION SLAVE"),
        (status, client),
        ({"SELECT"}, "SELECT"),
    ]
    return [
        Finding(f"privilege {name} is missing", f"GRANT {name} ON *.* TO {_quoted(user)}")
        for any_of, name in wanted
        if not any_of & have
    ]


def _quoted(user: str) -> str:
    return "'" + user.replace("'", "''") + "'@'%'"


def describe(connection: Any) -> dict[str, Any]:
    """Kind, version, uuid and server id, as UpstreamInfo names them."""
    values = variables(connection)
    return {
        "server_kind": server_kind(values["version"]),
        "server_version": values["version"],
        "server_uuid": values.get("server_uuid", ""),
        "server_id": int(values.get("server_id", "0")),
    }
