"""Which replicated tables a DDL stops.

Until schema changes are followed, a DDL that touches a replicated table stops that table just
below the DDL's ts; one that touches nothing replicated passes by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cdc.base.errors import DefiniteError
from cdc.base.ts import Ts
from cdc.coord.messages import ErrorInfo
from cdc.schema.ddl import Touched

Matches = Callable[[str, str], bool]
TableName = tuple[str, str]

_EXCERPT = 200


class DDLNotSupported(DefiniteError):
    """A schema change of a replicated table."""

    code = "TG:ErrDDLNotSupported"


@dataclass(frozen=True, slots=True)
class Ddl:
    """A DDL row of the change log; ``touched`` is None and ``error`` set if not understood."""

    ts: Ts
    sql: str
    touched: Touched | None
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing at or above ``ts`` may be delivered, for the reason of ``error``."""

    ts: Ts
    error: ErrorInfo


def stops(
    ddl: Ddl, matches: Matches, tables: Iterable[TableName], position: str, now_ms: int
) -> dict[str, Stop]:
    """The replicated tables (``schema.table``) that the DDL stops.

    ``tables`` are those of the schema snapshot: a DROP DATABASE stops all of them that it takes
    away. Creating or altering a database changes no table that exists.
    """
    assert ddl.touched is not None
    names = {name for name in ddl.touched.tables if matches(*name)}
    if ddl.touched.kind == "drop database":
        gone = {s.lower() for s in ddl.touched.schemas}
        names |= {name for name in tables if name[0].lower() in gone and matches(*name)}
    return {
        f"{schema}.{table}": Stop(ddl.ts, _error(ddl, f"{schema}.{table}", position, now_ms))
        for schema, table in sorted(names)
    }


def _error(ddl: Ddl, table: str, position: str, now_ms: int) -> ErrorInfo:
    sql = " ".join(ddl.sql.split())
    if len(sql) > _EXCERPT:
        sql = sql[:_EXCERPT] + "…"
    return ErrorInfo(
        code=DDLNotSupported.code,
        kind=str(DDLNotSupported.kind),
        message=f"schema changes of replicated tables are not supported yet: {sql}",
        object=table,
        position=position,
        hint="exclude the table with filter.rules (pause, update, resume), or create a new "
        "changefeed that starts after the DDL",
        time_ms=now_ms,
    )
