"""MariaDB's sequences, as far as tables become sequences and sequences tables."""

from __future__ import annotations

from collections.abc import Mapping

from cdc.schema.create import read_table
from cdc.schema.session import Session
from cdc.schema.table import Table
from cdc.schema.tokens import Cursor, tokenize

# Name, type and comment (MariaDB knowledge base, "CREATE SEQUENCE").
_COLUMNS = (
    ("next_not_cached_value", "bigint(21)", ""),
    ("minimum_value", "bigint(21)", ""),
    ("maximum_value", "bigint(21)", ""),
    (
        "start_value",
        "bigint(21)",
        "start value when sequences is created or value if RESTART is used",
    ),
    ("increment", "bigint(21)", "increment value"),
    ("cache_size", "bigint(21) unsigned", ""),
    (
        "cycle_option",
        "tinyint(1) unsigned",
        "0 if no cycles are allowed, 1 if the sequence should begin a new cycle when "
        "maximum_value is passed",
    ),
    ("cycle_count", "bigint(21)", "How many cycles have been done"),
)


def is_sequence(options: Mapping[str, str], *, otherwise: bool) -> bool:
    """Whether table options make a sequence of it; ``otherwise`` where they do not say."""
    said = options.get("SEQUENCE")
    return otherwise if said is None else said.upper() in ("1", "YES")


def of_sequence(schema: str, name: str, database: tuple[str, str], session: Session) -> Table:
    """The table that ``SEQUENCE = 0`` leaves; ``database`` is (charset, collation)."""
    columns = ", ".join(f"{n} {kind} NOT NULL COMMENT '{said}'" for n, kind, said in _COLUMNS)
    return read_table(Cursor(*tokenize(f"{columns})", session)), schema, name, database, session)
