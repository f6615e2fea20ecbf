"""Tables out of a file of CREATE TABLE statements, as SHOW CREATE TABLE prints them."""

from __future__ import annotations

import re
from pathlib import Path

from cdc.cli.log_schema import SchemaFileUnreadable, statements
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Table

_USE = re.compile(r"\s*USE\s+`?([^`;\s]+)`?\s*\Z", re.IGNORECASE)
_CREATE = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?TABLE\b", re.IGNORECASE)


def read_tables(path: Path, session: Session) -> dict[tuple[str, str], Table]:
    """Tables by (schema, name); ``USE`` says the schema of those that name none.

    Raises ``TG:ErrSchemaFileUnreadable``, or what a statement cannot be understood for.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SchemaFileUnreadable(reason, object=str(path), hint="check the file's name") from None
    schema = ""
    found = {}
    for statement in statements(text):
        use = _USE.match(statement)
        if use is not None:
            schema = use[1]
        elif _CREATE.match(statement):
            table = parse_create_table(statement, session, schema=schema)
            found[table.schema, table.name] = table
    return found
