"""CREATE TABLE with a column list → a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cdc.schema.draft import Body, KeyDraft, Options
from cdc.schema.elements import read_body
from cdc.schema.foreign import given_name, with_made
from cdc.schema.indexes import finish, longest_part, with_hidden_lengths
from cdc.schema.options import read_option
from cdc.schema.partitions import read_partitioning
from cdc.schema.resolve import (
    LONGEST_TABLE_COMMENT,
    not_null,
    promote_first_timestamp,
    resolve,
    said_pair,
)
from cdc.schema.session import Session
from cdc.schema.system import INFORMATION_SCHEMA, is_information
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
    foreign = [given_name(key, session) for key in body.keys if key.foreign is not None]
    if printed:
        body.keys = [key for key in body.keys if not key.generated]
    options, partitioning = read_tail(c)
    if not body.columns:
        raise c.error("the table has no columns")
    if not printed and is_information(c.text, body, options, mariadb=session.mariadb):
        database = INFORMATION_SCHEMA
    if printed and session.mariadb:
        body.keys = with_hidden_lengths(body.keys, body.columns)
    table = make_table(schema, name, body, options, partitioning, database, session)
    if not foreign or table.engine != "innodb":
        return table
    return replace(table, foreign_keys=with_made(name, (), foreign))


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
    charset, collation = said_pair(options, database, database, session)
    promote_first_timestamp(body.columns, session)
    columns = [resolve(draft, (charset, collation), session) for draft in body.columns]
    keys = body.keys
    done = tuple(not_null(column, never_null(keys, body.periods), session) for column in columns)
    engine = options.engine or "innodb"
    if options.engine is None and partitioning is not None and partitioning.partitions:
        engine = partitioning.partitions[0].engine or engine
    longest = longest_part(engine, options.others, session)
    indexes = finish(keys, by_name(done), body.periods, session, longest)
    return Table(
        schema,
        name,
        done,
        indexes,
        charset,
        collation,
        comment=(options.comment or "")[:LONGEST_TABLE_COMMENT],
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


def by_name(columns: tuple[Column, ...]) -> dict[str, Column]:
    """Columns by lower-case name."""
    return {column.name.lower(): column for column in columns}
