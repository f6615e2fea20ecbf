"""Our columns as SQL, so that a server can say them in its own words."""

from __future__ import annotations

from cdc.schema.table import Column, Generated, Table


def has_words(table: Table) -> bool:
    """Whether there is a default or an expression to be said."""
    return any(c.default is not None or c.expression is not None for c in table.columns)


def definitions(table: Table) -> str:
    """Columns without keys, as CREATE TABLE takes them."""
    return ", ".join(_column(c) for c in table.columns)


def later_defaults(table: Table) -> tuple[str, ...]:
    """Changes that give generated columns their defaults, which only ALTER TABLE can do."""
    return tuple(
        f"ALTER {_name(c)} SET DEFAULT {_default(c, c.default)}"
        for c in table.columns
        if c.expression is not None and c.default is not None
    )


def _quoted(text: str) -> str:
    for a, b in (("\\", "\\\\"), ("'", "\\'"), ("\0", "\\0")):
        text = text.replace(a, b)
    return f"'{text}'"


def _name(c: Column) -> str:
    return f"`{c.name.replace('`', '``')}`"


def _column(c: Column) -> str:
    words = [_name(c), c.column_type]
    if c.charset is not None:
        words.append(f"CHARACTER SET {c.charset} COLLATE {c.collation}")
    if c.expression is not None:
        kind = "STORED" if c.generated is Generated.STORED else "VIRTUAL"
        return " ".join([*words, f"GENERATED ALWAYS AS ({c.expression}) {kind}"])
    words.append("NULL" if c.nullable else "NOT NULL")
    if c.default is not None:
        words.append(f"DEFAULT {_default(c, c.default)}")
    return " ".join(words)


def _default(c: Column, text: str) -> str:
    if c.default_expression:
        return text if text.startswith("current_timestamp(") else f"({text})"
    if c.data_type == "bit" or (c.data_type in ("timestamp", "datetime") and text.isdigit()):
        # A number is taken where a text of it is not.
        return text
    return _quoted(text)
