"""CREATE TABLE text → :class:`cdc.schema.table.Table`.

Reads what ``SHOW CREATE TABLE`` prints on every supported server, and what people write in a
schema file, with the same code that reads history.
"""

from __future__ import annotations

from cdc.schema.charsets import default_collation
from cdc.schema.create import read_table
from cdc.schema.session import Session
from cdc.schema.shown_constraints import mended
from cdc.schema.table import Table
from cdc.schema.tokens import Cursor, tokenize


def parse_create_table(
    sql: str,
    session: Session | None = None,
    *,
    schema: str = "",
    charset: str = "utf8mb4",
    collation: str | None = None,
    printed: bool = False,
) -> Table:
    """Table of one CREATE TABLE statement.

    ``schema``, ``charset`` and ``collation`` are those of the database, for what the statement
    leaves open. ``printed`` says that a server wrote it: then it names every key, those that
    foreign keys have made too. Raises ``DDLNotUnderstood``.
    """
    session = session or Session()
    text, items = tokenize(mended(sql) if printed and session.mariadb else sql, session)
    c = Cursor(text, items)
    if not c.word("CREATE"):
        raise c.error("not a CREATE TABLE statement")
    c.word("OR", "REPLACE")
    c.word("TEMPORARY")
    if not c.word("TABLE"):
        raise c.error("not a CREATE TABLE statement")
    c.word("IF", "NOT", "EXISTS")
    name = c.name()
    if c.punct("."):
        schema, name = name, c.name()
    if not c.punct("("):
        raise c.error("a column list was expected")
    database = (charset, collation or default_collation(charset, session))
    return read_table(c, schema, name, database, session, printed=printed)
