"""Tables for printing rows, from a file of CREATE TABLE statements."""

from __future__ import annotations

import re
from pathlib import Path

from cdc.base.errors import InvalidError
from cdc.binlog.events import Dialect
from cdc.binlog.format_description import FormatDescription, version_number
from cdc.binlog.table_map import TableMap
from cdc.schema.parse import parse_create_table
from cdc.schema.table import Table
from cdc.schema.tokens import Session


class SchemaFileUnreadable(InvalidError):
    """The file given with ``--schema`` cannot be read."""

    code = "TG:ErrSchemaFileUnreadable"


_PIECE = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`"
    r"|--[ \t][^\n]*|#[^\n]*|/\*(?!M?!).*?\*/|;|[^'\"`;#/-]+|.",
    re.S,
)
_USE = re.compile(r"\s*USE\s+`?([^`;\s]+)`?\s*\Z", re.I)
_CREATE = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY\s+)?TABLE\b", re.I)

Tables = dict[tuple[str, str], Table]


def statements(text: str) -> list[str]:
    """The statements of an SQL file, comments left out."""
    out: list[str] = []
    now: list[str] = []
    for found in _PIECE.finditer(text):
        piece = found[0]
        if piece == ";":
            out.append("".join(now))
            now = []
        elif not piece.startswith(("-- ", "--\t", "#")) and not (
            piece.startswith("/*") and piece.endswith("*/")
        ):
            now.append(piece)
    return [*out, "".join(now)]


def read_schema(path: Path, format: FormatDescription) -> Tables:
    """Tables by (schema, name); a table without a schema is under ``("", name)``.

    A character set that a statement leaves open is ``""``: the database's default is not known.
    """
    session = Session(format.dialect is Dialect.MARIADB, version_number(format.server_version))
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaFileUnreadable(str(error), object=str(path)) from None
    schema = ""
    tables: Tables = {}
    for statement in statements(text):
        use = _USE.match(statement)
        if use is not None:
            schema = use[1]
        elif _CREATE.match(statement):
            table = parse_create_table(statement, session, schema=schema, charset="")
            tables[table.schema, table.name] = table
    return tables


def find_table(tables: Tables, stored: TableMap) -> Table | None:
    """The table of a TABLE_MAP; one that was given without a schema fits any."""
    found = tables.get((stored.schema, stored.name)) or tables.get(("", stored.name))
    if found is None or found.schema:
        return found
    return Table(
        stored.schema, found.name, found.columns, found.indexes, found.charset, found.collation
    )
