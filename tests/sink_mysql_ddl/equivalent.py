"""What two tables of different families must have in common to hold the same rows."""

from __future__ import annotations

import re
from typing import Any

Values = dict[str, Any]
# Types of one family, and what their values are kept in by the other.
_TYPES = {"json": "longtext", "uuid": "char", "inet6": "varchar", "inet4": "varchar"}
_SIZED = {"uuid": "char(36)", "inet6": "varchar(45)", "inet4": "varchar(15)", "json": "longtext"}
_INTEGER = re.compile(r"(?<=int)\(\d+\)")


def agreed_defaults(a: Values, b: Values) -> None:
    """Defaults that one side shows as a value and the other as an expression become none of both.

    Nor can they be compared of types that one side has not, and of MariaDB's compressed columns it
    shows an empty one that nobody has given.
    """
    for one, other in zip(a["columns"], b["columns"], strict=False):
        both = (one, other)
        types = {column["data_type"] for column in both}
        compressed = any("COMPRESSED" in column["column_type"] for column in both)
        given = all(column["default"] is not None for column in both)
        shown = {"<expression>", "<value>"} & {column["default"] for column in both}
        if compressed or (given and (shown or types & {*_TYPES})):
            one["default"] = other["default"] = None


def equivalent(table: Values) -> Values:
    """A table of ``tests.ddl_diff.compare`` without what the families say in words of their own."""
    found: Values = {
        "columns": [_column(c) for c in table["columns"]],
        # MariaDB takes a key whose name has other capitals now for the one that it was.
        "keys": {name.lower(): key for name, key in table["keys"].items()},
    }
    if "facts" in table:
        facts = table["facts"]
        found["facts"] = {
            "collation": _kind(facts["collation"]),
            "comment": facts["comment"],
            "versioned": facts["versioned"],
            "partitions": facts["partitions"],
        }
    return found


def _column(column: Values) -> Values:
    kind = column["data_type"]
    foreign = kind in _TYPES or column["charset"] == "ascii"
    full = _SIZED.get(kind, _INTEGER.sub("", column["column_type"]))
    full = full.replace("geomcollection", "geometrycollection")
    full = re.sub(r"^year\(\d\)", "year", re.sub(r" /\*.*?\*/", "", full))
    binary = column["charset"] in (None, "binary")
    text = binary or kind in _TYPES or (kind == "longtext" and column["collation"] == "utf8mb4_bin")
    return {
        **column,
        "data_type": _TYPES.get(kind, kind),
        "column_type": full,
        "charset": None if foreign or text else column["charset"],
        "collation": None if foreign or text else _kind(column["collation"]),
        # MariaDB lets no generated column be NOT NULL.
        "nullable": column["nullable"] or bool(column["generated"]),
        "srid": None,
    }


def _kind(collation: str | None) -> str | None:
    """Its character set, and whether it is binary."""
    if collation is None:
        return None
    charset = collation.partition("_")[0]
    return f"{charset}_bin" if collation.endswith("_bin") else charset
