"""Schema snapshots: SHOW CREATE TABLE of every table at a known upstream position."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pymysql

from cdc.coord.messages import UpstreamInfo
from cdc.schema.snapshot import Wanted
from cdc.schema.system import SYSTEM_SCHEMAS
from cdc.schema.tokens import quoted
from cdc.source.connection import open_connection, query_error, rows, try_rows
from cdc.source.ddl_scan import has_ddl_between
from cdc.source.errors import UpstreamGone, UpstreamNotReady
from cdc.source.position import UpstreamPosition
from cdc.source.settings import SourceSettings

_ATTEMPTS = 5
# Asking for each by itself is faster than for all of a server that has many.
_FEW_DATABASES = 20
_NO_SUCH_TABLE = 1146
# Of many tables so many are read at once, each of these connections some of them: a server prints
# some thousand definitions a second, and one that is far away far fewer.
_CONNECTIONS = 4
_TABLES_EACH = 200


def take_snapshot(
    info: UpstreamInfo, settings: SourceSettings, wanted: Wanted | None = None
) -> tuple[UpstreamPosition, dict[str, Any]]:
    """A position, and the schema as it was there; of its tables only those that are wanted.

    The schema is read between two positions; if the binlog shows a DDL between them it is read
    again. Raises UpstreamGone if the schema does not stand still.
    """
    connection = open_connection(info, settings)
    try:
        for _ in range(_ATTEMPTS):
            before = current_position(connection, info.server_kind)
            snapshot = _read(connection, info, settings, wanted)
            after = current_position(connection, info.server_kind)
            if snapshot is not None and not has_ddl_between(info, before, after, settings):
                return after, snapshot
    except pymysql.err.MySQLError as error:
        raise query_error(error, f"upstream {info.name}") from None
    finally:
        connection.close()
    raise UpstreamGone(
        f"the schema changed during each of {_ATTEMPTS} readings",
        object=f"upstream {info.name}",
        hint="try again when fewer statements change tables",
    )


def current_position(connection: Any, server_kind: str) -> UpstreamPosition:
    """The end of the server's binlog now."""
    found = try_rows(connection, "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS") or [{}]
    status = found[0] if found else {}
    file, pos = str(status.get("file", "")), int(status.get("position", 4))
    if server_kind == "mariadb":
        # Of exactly this offset: transactions may commit between two statements.
        at = rows(connection, "SELECT BINLOG_GTID_POS(%s, %s) AS g", file, pos)
        return UpstreamPosition(file, pos, str(at[0]["g"] or ""))
    mode = rows(connection, "SELECT @@gtid_mode AS m")[0]["m"]
    gtid = str(status.get("executed_gtid_set", "")).replace("\n", "") if mode == "ON" else None
    return UpstreamPosition(file, pos, gtid)


def _read(
    connection: Any, info: UpstreamInfo, settings: SourceSettings, wanted: Wanted | None
) -> dict[str, Any] | None:
    server = rows(
        connection,
        "SELECT @@version AS version, @@lower_case_table_names AS lower_case_table_names,"
        " @@global.sql_mode AS sql_mode, @@character_set_server AS character_set_server,"
        " @@collation_server AS collation_server,"
        " @@explicit_defaults_for_timestamp AS explicit_defaults_for_timestamp",
    )[0]
    _set_session(connection)
    databases = rows(
        connection,
        "SELECT schema_name AS n, default_character_set_name AS c, default_collation_name AS o"
        " FROM information_schema.schemata",
    )
    tables = _listed(connection, [str(d["n"]) for d in databases], wanted)
    names: list[tuple[str, str]] = []
    others: list[list[str]] = []
    for table in tables:
        schema, name = str(table["s"]), str(table["t"])
        if schema.lower() in SYSTEM_SCHEMAS:
            continue
        if table["k"] in ("VIEW", "SEQUENCE"):
            # They take a name that a table of IF NOT EXISTS cannot have.
            others.append([schema, name])
            continue
        if wanted is None or wanted.matches(schema, name):
            names.append((schema, name))
    texts = _texts(connection, info, settings, names)
    if texts is None:
        return None
    return {
        "ts": 0,
        "server": {"kind": info.server_kind, **server},
        "databases": {
            str(d["n"]): {"charset": str(d["c"]), "collation": str(d["o"])}
            for d in databases
            if str(d["n"]).lower() not in SYSTEM_SCHEMAS
        },
        "tables": texts,
        "others": others,
        "triggers": _triggers(connection, {(str(t["s"]), str(t["t"])) for t in tables}),
    }


def _set_session(connection: Any) -> None:
    """Texts must read back under the default mode, whatever the server's own is; defaults of a
    TIMESTAMP are printed in the session's time zone.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = '', sql_quote_show_create = 1, time_zone = '+00:00'")


def _texts(
    connection: Any, info: UpstreamInfo, settings: SourceSettings, names: list[tuple[str, str]]
) -> dict[str, str] | None:
    """What SHOW CREATE TABLE prints, by ``schema.table``; None if a table is not there any more."""
    with ExitStack() as stack:
        connections = [connection]
        while len(connections) < min(_CONNECTIONS, len(names) // _TABLES_EACH):
            try:
                more = open_connection(info, settings)
            except (UpstreamGone, UpstreamNotReady):
                # A user may have no more than one, and one is enough.
                break
            stack.callback(more.close)
            _set_session(more)
            connections.append(more)
        count = len(connections)
        shares = [names[number::count] for number in range(count)]
        with ThreadPoolExecutor(count, "definitions") as pool:
            found = list(pool.map(_printed, connections, shares))
    texts = dict[tuple[str, str], str]()
    for share in found:
        if share is None:
            return None
        texts |= share
    return {f"{schema}.{name}": texts[schema, name] for schema, name in names}


def _printed(
    connection: Any, names: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], str] | None:
    """The same over one connection."""
    texts = dict[tuple[str, str], str]()
    for schema, name in names:
        try:
            found = rows(connection, f"SHOW CREATE TABLE {quoted(schema, name)}")
        except pymysql.err.ProgrammingError as error:
            if error.args[0] != _NO_SUCH_TABLE:
                raise
            return None
        texts[schema, name] = str(found[0]["create table"])
    return texts


def _listed(connection: Any, databases: list[str], wanted: Wanted | None) -> list[dict[str, Any]]:
    """Database, name and kind of the tables and of what has names as tables do.

    If only few databases have wanted ones: of these. A server then looks at no others.
    """
    query = (
        "SELECT table_schema AS s, table_name AS t, table_type AS k FROM information_schema.tables"
        " WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'VIEW', 'SEQUENCE')"
    )
    if wanted is not None:
        some = [name for name in databases if wanted.matches_schema(name)]
        if len(some) <= _FEW_DATABASES:
            return [t for n in some for t in rows(connection, f"{query} AND table_schema = %s", n)]
    return rows(connection, query)


def _triggers(connection: Any, names: set[tuple[str, str]]) -> list[list[str]]:
    """(database, table, trigger, statement) of tables that pt-online-schema-change may be changing.

    Who has no TRIGGER right on a table is told of none.
    """
    found = []
    for schema, name in sorted(names):
        model = name.strip("_").removesuffix("_new")
        if not (name.startswith("_") and name.endswith("_new") and (schema, model) in names):
            continue
        found += [
            [schema, model, str(row["n"]), str(row["q"])]
            for row in rows(
                connection,
                "SELECT trigger_name AS n, action_statement AS q FROM information_schema.triggers"
                " WHERE event_object_schema = %s AND event_object_table = %s",
                schema,
                model,
            )
        ]
    return found
