"""Schema changes as an owner would make them of statements."""

from __future__ import annotations

from cdc.base.ts import Ts, compose
from cdc.binlog.query import StatusVariables
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from sink.schema_change import SchemaChange

_START_MS = 1_795_000_000_000


def at(number: int) -> Ts:
    """Return the ts of the numbered change."""
    return compose(_START_MS + number * 1000)


def change(number: int, sql: str, before: Catalog, *, schema: str = "shop") -> SchemaChange:
    """Return a change of tables that are all delivered."""
    session = Session(mariadb=True, version=(11, 4, 0), default_schema=schema)
    seen = read_ddl(sql, session)
    return SchemaChange(
        ts=at(number),
        sql=sql,
        kind=seen.kind,
        tables=seen.tables,
        schemas=seen.schemas,
        replicated=seen.tables,
        session=session,
        status=StatusVariables(sql_mode=0),
        time_s=at(number) >> 18,
        before=before,
        after=apply(before, seen),
    )


def history(*statements: str) -> list[SchemaChange]:
    """Return the changes of statements that follow one another."""
    catalog = Catalog()
    found = []
    for number, sql in enumerate(statements):
        found.append(change(number, sql, catalog))
        catalog = found[-1].after
    return found
