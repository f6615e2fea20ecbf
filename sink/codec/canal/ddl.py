"""Schema changes as messages of canal-json."""

from __future__ import annotations

from collections.abc import Collection

from cdc.base.nodes import plain
from cdc.binlog.query import StatusVariables
from cdc.schema.alter import Plan
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.sql_mode import mode_names
from cdc.schema.tokens import DDLNotUnderstood
from sink.codec.canal.messages import message
from sink.codec.canal.settings import CanalSettings
from sink.codec.statement import statement_text
from sink.dispatch.target import TargetRouter
from sink.schema_change import SchemaChange, TableName

# Canal's type by the statement's first words; what is not here is QUERY.
_TYPES = {
    "create table": "CREATE",
    "rename table": "RENAME",
    "create index": "CINDEX",
    "drop index": "DINDEX",
    "drop table": "ERASE",
    "truncate table": "TRUNCATE",
    "alter table": "ALTER",
}
_MAPS_COLLATIONS = (11, 2)


def ddl_message(
    change: SchemaChange, tables: Collection[TableName], settings: CanalSettings, build_ms: int
) -> bytes:
    """The message for a topic that holds ``tables`` of those that the change touches.

    ``database`` and ``table`` are of the first of them that the statement names; without any, the
    change is about a whole database. All names are those that routing rules give.
    """
    names = TargetRouter.of(settings.dispatchers, case_sensitive=settings.case_sensitive)
    named = [name for name in change.tables if name in tables]
    if named and not change.schemas:
        schema, table = names.target(*named[0])
    else:
        schema, table = names.target_schema(next(iter(change.schemas), "")), ""
    more: dict[str, object] = {}
    if settings.enable_tidb_extension:
        more = {"_tidb": {"commitTs": change.ts}, "_tidegate": _context(change)}
    return message(
        schema,
        table,
        ddl_type(change),
        change.ts,
        build_ms,
        sql=statement_text(change, named, names),
        ddl=True,
        more=more,
    )


def ddl_type(change: SchemaChange) -> str:
    """CREATE, RENAME, CINDEX, DINDEX, ERASE, TRUNCATE, ALTER or QUERY, as TiCDC's."""
    kind = _TYPES.get(change.kind, "QUERY")
    if change.session.failed and kind == "CREATE":
        return "ERASE"
    return _of_action(change) if kind == "ALTER" else kind


def _of_action(change: SchemaChange) -> str:
    """The type of an ALTER TABLE: only a single action has one of its own."""
    try:
        actions = read_ddl(change.sql, change.session).actions
    except DDLNotUnderstood:
        return "ALTER"
    plans = [action.plan for action in actions if action.plan != Plan()]
    if len(plans) != 1:
        return "ALTER"
    plan = plans[0]
    if plan == Plan(keys=plan.keys) and len(plan.keys) == 1:
        return "CINDEX"
    if plan == Plan(drop_keys=plan.drop_keys):
        return "DINDEX"
    return "RENAME" if plan == Plan(renamed=True) else "ALTER"


def _context(change: SchemaChange) -> dict[str, object]:
    """What the statement's text does not say of itself."""
    return {
        "defaultDatabase": plain(change.session.default_schema),
        "session": _variables(change.session, change.status)
        | ({"system_versioning_alter_history": "KEEP"} if _versioned(change) else {})
        | {"timestamp": change.time_s},
    }


def _versioned(change: SchemaChange) -> bool:
    """MariaDB changes a table with history only if told so; the upstream was."""
    found = (
        catalog.table(*name)
        for name in change.tables
        for catalog in (change.before, change.after)
        if change.session.mariadb and catalog.has_table(*name)
    )
    return any(table is not None and table.versioned for table in found)


def _variables(session: Session, status: StatusVariables) -> dict[str, object]:
    """Session variables that decide what the statement means, by name."""
    said: dict[str, object] = {"foreign_key_checks": int(session.foreign_key_checks)}
    if status.sql_mode is not None:
        modes = mode_names(status.sql_mode, mariadb=session.mariadb, version=session.version)
        said["sql_mode"] = ",".join(modes)
    if status.explicit_defaults_ts is not None or session.mariadb:
        said["explicit_defaults_for_timestamp"] = int(session.explicit_defaults_for_timestamp)
    if status.time_zone and status.time_zone != "SYSTEM":
        said["time_zone"] = status.time_zone
    for name, value in (
        ("collation_server", session.collation_server),
        ("default_collation_for_utf8mb4", session.default_collation_utf8mb4),
    ):
        if value:
            said[name] = value
    if session.mariadb and session.version >= _MAPS_COLLATIONS:
        # An empty map is one, too: the consumer's own would count without it.
        pairs = ",".join(f"{a}={b}" for a, b in session.charset_collations)
        said["character_set_collations"] = pairs
    return said
