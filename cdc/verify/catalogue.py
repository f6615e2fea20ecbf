"""Tables as a server's own ``information_schema`` describes them.

Not as the change log's schema says: what is verified must not be asked of what made it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from cdc.base.nodes import plain
from cdc.verify.columns import ColumnInfo
from cdc.verify.layout import TableInfo
from cdc.verify.sessions import Row, Sql, as_text

Matches = Callable[[str, str], bool]
_KINDS = "('BASE TABLE', 'SYSTEM VERSIONED')"


def table_names(session: Sql, matches: Matches) -> list[tuple[str, str]]:
    """Schema and name of all base tables that match, sorted."""
    found = session.rows(
        f"SELECT table_schema AS s, table_name AS t FROM information_schema.tables"
        f" WHERE table_type IN {_KINDS}"
    )
    return sorted((as_text(s), as_text(t)) for s, t in found if matches(as_text(s), as_text(t)))


def table_info(
    session: Sql, schema: str, name: str, hidden: Collection[str] = ()
) -> TableInfo | None:
    """A table; None if the server has none of this name, or hides it from us.

    ``schema`` may say the node, which is the server that ``session`` is of. ``hidden``: columns, in
    lower case, that are left out, with keys that have one.
    """
    where = f"table_schema = {_string(plain(schema))} AND table_name = {_string(name)}"
    columns = session.rows(
        "SELECT column_name AS a, data_type AS b, column_type AS c, character_set_name AS d,"
        " collation_name AS h, character_maximum_length AS e,"
        " COALESCE(numeric_scale, datetime_precision) AS f,"
        " extra AS g, is_nullable AS i, column_default AS j"
        f" FROM information_schema.columns WHERE {where} ORDER BY ordinal_position"
    )
    if not columns:
        return None
    found = session.rows(
        f"SELECT table_rows AS r FROM information_schema.tables WHERE {where}"
        f" AND table_type IN {_KINDS}"
    )
    if not found:
        return None
    secret = {n for c in columns if (n := as_text(c[0])).lower() in hidden}
    key = _key(session, where, secret | {as_text(c[0]) for c in columns if _virtual(c)})
    shown = tuple(_column(c) for c in columns if as_text(c[0]) not in secret)
    return TableInfo(schema, name, shown, key, rows=int(found[0][0] or 0))


def _column(row: Row) -> ColumnInfo:
    name, data_type, column_type, charset, collation, length, scale, extra, nullable, given = row
    default = None if given is None else as_text(given)
    return ColumnInfo(
        as_text(name),
        as_text(data_type).lower(),
        as_text(column_type),
        as_text(charset) if charset is not None else None,
        as_text(collation) if collation is not None else None,
        int(length) if length is not None else None,
        int(scale) if scale is not None else None,
        _virtual(row),
        as_text(nullable) == "YES",
        # As MariaDB tells it; MySQL has no such text.
        None if default == "NULL" else default,
        "GENERATED" in as_text(extra).upper() or _is_expression(default),
    )


def _is_expression(default: str | None) -> bool:
    """Whether a default is no literal. MariaDB quotes texts, MySQL marks what is none in EXTRA."""
    if default is None or default.startswith("'"):
        return False
    return "(" in default or default.upper().startswith("CURRENT_TIMESTAMP")


def _virtual(row: Row) -> bool:
    return "VIRTUAL" in as_text(row[7]).upper()


def _key(session: Sql, where: str, unfit: set[str]) -> tuple[str, ...]:
    """Columns of the primary key, else of a unique key without NULL and ``unfit`` columns."""
    found = session.rows(
        "SELECT index_name AS i, column_name AS c, nullable AS n FROM"
        f" information_schema.statistics WHERE {where} AND non_unique = 0"
        " ORDER BY index_name = 'PRIMARY' DESC, index_name, seq_in_index"
    )
    indexes: dict[str, list[Row]] = {}
    for row in found:
        indexes.setdefault(as_text(row[0]), []).append(row)
    for parts in indexes.values():
        names = tuple("" if p[1] is None else as_text(p[1]) for p in parts)
        # A part without a name is an expression.
        if "" not in names and not unfit & set(names) and all(p[2] != "YES" for p in parts):
            return names
    return ()


def _string(text: str) -> str:
    return f"_utf8mb4 X'{text.encode().hex()}'"
