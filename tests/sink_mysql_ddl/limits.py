"""What a kind of server cannot have, by name: all else that a target rejects is our mistake.

These are in ``docs/mysql.md``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ANY = ("mariadb", "mysql")
_MYSQL = ("mysql",)


@dataclass(frozen=True, slots=True)
class Limit:
    """Targets of these kinds answer ``error`` to statements of this form."""

    name: str
    error: int
    statement: str
    targets: tuple[str, ...] = _ANY


LIMITS = (
    Limit("full-text parsers", 1128, r"WITH PARSER"),
    Limit("MERGE tables", 1168, r""),
    Limit("geometries in partitions", 1178, r""),
    Limit("wide keys of compact rows", 1709, r""),
    Limit("exchanged partitions", 1731, r"EXCHANGE PARTITION"),
    Limit("functions in expressions", 1901, r"\(", ("mariadb",)),
    Limit("types of columns of foreign keys", 1832, r"MODIFY|CHANGE", ("mariadb",)),
    Limit("casts", 4078, r"", ("mariadb",)),
    Limit("invisible columns", 4108, r"INVISIBLE| LIKE "),
    Limit("CHECK among a column's attributes", 1064, r"\bCHECK\b", ("mariadb",)),
    Limit("keys of whole texts", 1170, r"", _MYSQL),
    Limit("keys wider than MySQL's", 1071, r"", _MYSQL),
    Limit("keys of several geometries", 1070, r"", _MYSQL),
    Limit("unique keys of geometries", 3728, r"UNIQUE", _MYSQL),
    Limit(
        "lengths of geometries in keys", 1089, r"\b(geometry|point|polygon|linestring)\b", _MYSQL
    ),
    Limit("keys of geometries that may be NULL", 1252, r"\b(geometry|point|polygon)\b", _MYSQL),
    Limit("defaults that ALTER gives long columns", 1101, r"SET DEFAULT", _MYSQL),
    Limit("rows as wide as MariaDB's", 1118, r"", _MYSQL),
    Limit("several FULLTEXT keys at once", 1795, r"FULLTEXT.*FULLTEXT", _MYSQL),
    Limit("FULLTEXT beside a foreign key", 1553, r"FULLTEXT", _MYSQL),
    Limit("new names of columns that expressions name", 3108, r"CHANGE|RENAME", _MYSQL),
    Limit("new names of columns that checks name", 3959, r"CHANGE|RENAME", _MYSQL),
    Limit("ASCII that a check compares with other letters", 1267, r"\b(uuid|inet[46])\b", _MYSQL),
    Limit("keys of CHAR(0)", 1167, r"", _MYSQL),
    Limit("new names of columns that partitions name", 3855, r"CHANGE|RENAME", _MYSQL),
    Limit("variables in defaults", 3772, r"@", _MYSQL),
    Limit(
        "DEFAULT beside a character set", 1302, r"CONVERT TO.*DEFAULT|DEFAULT.*CONVERT TO", _MYSQL
    ),
    Limit("new columns of unsafe functions", 1674, r"ADD .*DEFAULT \(", _MYSQL),
    Limit("a new column that is changed", 1054, r"ADD .*(MODIFY|ALTER COLUMN)", _MYSQL),
    Limit("times in other digits, or NULL", 1067, r"timestamp", _MYSQL),
    Limit("LIKE of a sequence", 1146, r" LIKE ", _MYSQL),
    Limit("columns with their table's name", 1064, r"\(\w+\.\w+ ", _MYSQL),
    Limit("types with their schema's name", 1064, r"\w+_schema\.", _MYSQL),
    Limit("partitions without the word", 1064, r"VALUES LESS THAN", _MYSQL),
    Limit("BIT(0)", 3013, r"bit\(0\)", _MYSQL),
    Limit("-> and ->> of JSON", 1064, r"->", ("mariadb",)),
)


def limit(error: str, statement: str, target: str) -> str | None:
    """The name of the limit that a target's error is about; None if it is a defect."""
    for one in LIMITS:
        known = f"({one.error})" in error and target in one.targets
        if known and re.search(one.statement, statement, re.IGNORECASE):
            return one.name
    return None
