"""Foreign keys and CHECK constraints of a table, as each server's information_schema has them."""

from __future__ import annotations

import contextlib
import re
from typing import Any

Constraints = dict[str, list[Any]]

_FOREIGN_KEYS = (
    "SELECT r.constraint_name, k.column_name, k.referenced_table_schema,"
    " k.referenced_table_name, k.referenced_column_name, r.update_rule, r.delete_rule"
    " FROM information_schema.key_column_usage k"
    " JOIN information_schema.referential_constraints r"
    " ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name"
    " AND r.table_name = k.table_name"
    " WHERE k.table_schema = %s AND k.table_name = %s AND k.referenced_table_name IS NOT NULL"
    " ORDER BY r.constraint_name, k.ordinal_position"
)
_CHECKS = {
    "mariadb": (
        "SELECT constraint_name, check_clause, 'YES' FROM information_schema.check_constraints"
        " WHERE constraint_schema = %s AND table_name = %s"
    ),
    "mysql": (
        "SELECT c.constraint_name, c.check_clause, t.enforced"
        " FROM information_schema.check_constraints c"
        " JOIN information_schema.table_constraints t"
        " ON t.constraint_schema = c.constraint_schema AND t.constraint_name = c.constraint_name"
        " WHERE t.constraint_type = 'CHECK' AND t.table_schema = %s AND t.table_name = %s"
    ),
}
# Marks of quoting and of precedence, which each family sets where it likes.
_MARKS = re.compile(r"_[a-z0-9]+(?=\\?')|[`()\\\s]")


def constraints(cursor: Any, kind: str, schema: str, name: str) -> Constraints:
    """What a table refers to, and what its rows have to fulfil.

    Of a CHECK the families have only this in common: its expression but for quotes and
    parentheses, and whether it is enforced. Unnamed ones get names of each server's making.
    """
    cursor.execute(_FOREIGN_KEYS, (schema, name))
    keys = [[_rule(value) for value in row] for row in cursor.fetchall()]
    cursor.execute(_CHECKS[kind], (schema, name))
    checks = [(_bare(_read(clause, kind)), enforced) for _, clause, enforced in cursor.fetchall()]
    # MariaDB's JSON is a text with such a check, MySQL's is a type.
    checks = sorted(check for check in checks if not check[0].startswith("json_valid"))
    return {"foreign keys": sorted(keys), "checks": checks}


def _rule(value: Any) -> Any:
    # The two are one thing to InnoDB, and each family shows its own for none.
    return "RESTRICT" if value == "NO ACTION" else value


def _read(clause: Any, kind: str) -> str:
    text = clause.decode() if isinstance(clause, bytes) else str(clause)
    if kind == "mysql" and not text.isascii():
        # MySQL shows each byte of this as a character of that number, its own latin1 being cp1252
        # elsewhere; SHOW CREATE TABLE has it right.
        with contextlib.suppress(UnicodeError):
            return text.encode("latin-1").decode()
    return text


def _bare(text: str) -> str:
    return _MARKS.sub("", text.lower()).replace("<>", "!=")


def differing(ours: Constraints, theirs: Constraints) -> list[str]:
    """What differs, each as a short line: the upstream's value, the target's value."""
    return [
        f"{what}: {ours[what]} != {theirs[what]}" for what in ours if ours[what] != theirs[what]
    ]
