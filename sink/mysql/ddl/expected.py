"""What a table of the upstream looks like at the target, as a value."""

from __future__ import annotations

from dataclasses import replace

from cdc.schema.table import Column, Generated, Table
from sink.mysql.ddl.collations import collation_for
from sink.mysql.ddl.errors import DDLNotTranslatable
from sink.mysql.ddl.server import TargetServer

# Types of MariaDB alone: type and length of what takes their place.
_PLACED = {"uuid": ("char", 36), "inet6": ("varchar", 45), "inet4": ("varchar", 15)}


def expected(table: Table | None, server: TargetServer, *, source_mariadb: bool) -> Table | None:
    """The table in the target's types, collations and engines, as far as we compare them."""
    if table is None:
        return None
    engine = table.engine if not server.engines or table.engine in server.engines else "innodb"
    table = replace(table, engine=engine, collation=_collation(table.collation, server))
    if source_mariadb == server.mariadb:
        columns = [replace(c, collation=_collation(c.collation, server)) for c in table.columns]
        return replace(table, columns=tuple(columns))
    columns = [_column(column, server) for column in table.columns]
    return replace(table, columns=tuple(columns), options=(), versioned=False, periods=())


def _collation(name: str | None, server: TargetServer) -> str | None:
    if name is None:
        return None
    try:
        own = collation_for(name, None, server)
    except DDLNotTranslatable:
        return name
    return next((full for full, said in server.collations.items() if said == own), own)


def _column(c: Column, server: TargetServer) -> Column:
    c = replace(c, srid=None, compressed=False, collation=_collation(c.collation, server))
    if server.mariadb:
        # MariaDB lets no generated column be NOT NULL, and JSON is LONGTEXT to it.
        c = replace(c, nullable=c.nullable or c.generated is not Generated.NO)
        if c.data_type == "json":
            c = replace(c, data_type="longtext", charset="utf8mb4", collation="utf8mb4_bin")
        return c
    placed = _PLACED.get(c.data_type)
    if placed is None:
        return c
    kind, length = placed
    return replace(c, data_type=kind, length=length, charset="ascii", collation="ascii_general_ci")
