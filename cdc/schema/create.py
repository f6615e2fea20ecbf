"""CREATE TABLE with a column list → a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc.schema.charsets import charset_default
from cdc.schema.draft import Body, KeyDraft, Options
from cdc.schema.elements import read_body
from cdc.schema.indexes import finish
from cdc.schema.options import read_option
from cdc.schema.partitions import read_partitioning
from cdc.schema.resolve import charset_pair, promote_first_timestamp, resolve
from cdc.schema.session import Session
from cdc.schema.table import Column, Partitioning, Table
from cdc.schema.tokens import Cursor


def read_table(
    c: Cursor,
    schema: str,
    name: str,
    database: tuple[str, str],
    session: Session,
    *,
    printed: bool = False,
) -> Table:
    """Reads from behind the opening parenthesis; ``database`` is (charset, collation)."""
    body = read_body(c, session)
    if printed:
        body.keys = [key for key in body.keys if not key.generated]
    options, partitioning = read_tail(c)
    if not body.columns:
        raise c.error("the table has no columns")
    return make_table(schema, name, body, options, partitioning, database, session)


def read_tail(c: Cursor) -> tuple[Options, Partitioning | None]:
    """Options and partitioning behind the column list; nothing may follow them."""
    options = Options()
    while read_option(c, options):
        c.punct(",")
    partitioning = read_partitioning(c)
    while read_option(c, options):
        c.punct(",")
    if c.peek() is not None:
        raise c.error("what follows the column list is not understood")
    return options, partitioning


def make_table(
    schema: str,
    name: str,
    body: Body,
    options: Options,
    partitioning: Partitioning | None,
    database: tuple[str, str],
    session: Session,
) -> Table:
    """The table that the server makes of what was written."""
    if options.default_charset:
        database = charset_default(*database, session)
    charset, collation = charset_pair(options.charset, options.collation, database, session)
    promote_first_timestamp(body.columns, session)
    columns = [resolve(draft, (charset, collation), session) for draft in body.columns]
    keys = body.keys
    done = tuple(not_null(column, never_null(keys, body.periods)) for column in columns)
    engine = options.engine or "innodb"
    if options.engine is None and partitioning is not None and partitioning.partitions:
        engine = partitioning.partitions[0].engine or engine
    indexes = finish(keys, by_name(done), body.periods, session, engine)
    return Table(
        schema,
        name,
        done,
        indexes,
        charset,
        collation,
        comment=options.comment or "",
        engine=engine,
        # MariaDB: one column with the attribute makes the table a versioned one.
        versioned=bool(options.versioned) or any(draft.versioned for draft in body.columns),
        partitioning=partitioning,
        periods=tuple(body.periods.items()),
        options=tuple(sorted(options.others.items())),
    )


def never_null(keys: Sequence[KeyDraft], periods: Mapping[str, tuple[str, str]]) -> set[str]:
    """Lower-case names of columns that a primary key or a period makes NOT NULL."""
    names = {p.name.lower() for k in keys if k.kind == "PRIMARY" for p in k.parts}
    return names | {name.lower() for period in periods.values() for name in period}


def not_null(column: Column, names: set[str]) -> Column:
    """The column, NOT NULL if it is one of these."""
    if column.nullable and column.name.lower() in names:
        return column.but(nullable=False)
    return column


def by_name(columns: tuple[Column, ...]) -> dict[str, Column]:
    """Columns by lower-case name."""
    return {column.name.lower(): column for column in columns}
