"""What a table is besides columns and keys: engine, options, partitions, as comparable values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from cdc.schema.table import Table

Values = dict[str, Any]
Rows = Callable[..., list[tuple[Any, ...]]]

# Options that CREATE_OPTIONS of information_schema.tables shows on every server, and the value
# that is the same as none.
_OPTIONS = {
    "row_format": "default",
    "max_rows": "0",
    "min_rows": "0",
    "avg_row_length": "0",
    "pack_keys": "default",
    "checksum": "0",
    "delay_key_write": "0",
    "stats_persistent": "default",
    "stats_auto_recalc": "default",
    "stats_sample_pages": "default",
    "key_block_size": "0",
}
_ALIASES = {"table_checksum": "checksum"}
_TEXTS = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"")
_NAMES = re.compile(r"`((?:[^`]|``)+)`|([^\W\d][\w$]*|\d+[^\W\d][\w$]*)(?!\w|\s*\()")


def newer_name(charset: str) -> str:
    """A character set or collation as newer servers call it: ``utf8_bin`` is ``utf8mb3_bin``."""
    return re.sub(r"^utf8(?=_|$)", "utf8mb3", charset.lower())


def named_columns(expression: str, columns: Iterable[str]) -> list[str]:
    """Columns that an expression's text names, in lower case and sorted."""
    known = {name.lower() for name in columns}
    text = _TEXTS.sub(" ", expression.replace("\\'", "'"))
    found = {(m[1] or m[2]).replace("``", "`").lower() for m in _NAMES.finditer(text)}
    return sorted(found & known)


def server_facts(rows: Rows, schema: str, name: str, columns: list[str]) -> Values:
    """From ``information_schema.tables`` and ``.partitions``."""
    engine, collation, comment, options, kind = rows(
        "SELECT engine, table_collation, table_comment, create_options, table_type "
        "FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
        schema,
        name,
    )[0]
    given = dict(o.lower().split("=", 1) for o in (options or "").split() if "=" in o)
    return {
        "engine": (engine or "").lower(),
        "collation": collation and newer_name(collation),
        "comment": comment or "",
        "options": _options(given),
        "versioned": kind == "SYSTEM VERSIONED",
        "partitions": _server_partitions(rows, schema, name, columns),
        "foreign": sorted(
            row[0].lower()
            for row in rows(
                "SELECT constraint_name FROM information_schema.table_constraints WHERE "
                "constraint_type = 'FOREIGN KEY' AND table_schema = %s AND table_name = %s",
                schema,
                name,
            )
        ),
    }


def _options(given: dict[str, str]) -> dict[str, str]:
    named = {_ALIASES.get(k, k): v.strip("\"'") for k, v in given.items()}
    return {k: v for k, v in named.items() if k in _OPTIONS and v not in (_OPTIONS[k], "default")}


def _server_partitions(rows: Rows, schema: str, name: str, columns: list[str]) -> Values:
    found = rows(
        "SELECT partition_name, subpartition_name, partition_method, subpartition_method, "
        "partition_expression, subpartition_expression, partition_description, partition_comment "
        "FROM information_schema.partitions WHERE table_schema = %s AND table_name = %s "
        "ORDER BY partition_ordinal_position, subpartition_ordinal_position",
        schema,
        name,
    )
    if not found or found[0][0] is None:
        return {}
    parts: dict[str, Values] = {}
    for partition, sub, _, _, _, _, description, comment in found:
        # Where there are subpartitions the server shows the comments of these.
        said = (comment or "") if sub is None else None
        part = parts.setdefault(partition, {"subs": [], "comment": said})
        part["values"] = _plain(description or "")
        if sub is not None:
            part["subs"].append(sub)
    method, sub_method, expression, sub_expression = found[0][2:6]
    return {
        "method": method,
        "sub_method": sub_method or "",
        "columns": named_columns(expression or "", columns),
        "sub_columns": named_columns(sub_expression or "", columns),
        "parts": list(parts.items()),
    }


def _plain(values: str) -> str | None:
    """Values that every server shows as they were written; None for the others."""
    bare = values.upper().removeprefix("LESS THAN ").removeprefix("IN ").strip()
    if bare.startswith("(") and bare.endswith(")"):
        bare = bare[1:-1].strip()
    return re.sub(r"\s", "", bare) if re.fullmatch(r"-?\d{1,18}|MAXVALUE", bare) else None


def our_facts(table: Table) -> Values:
    """The same of our table."""
    columns = [column.name for column in table.columns]
    parts = table.partitioning
    partitions: Values = {}
    if parts is not None:
        partitions = {
            "method": parts.method,
            "sub_method": parts.sub_method,
            "columns": named_columns(parts.expression, columns),
            "sub_columns": named_columns(parts.sub_expression, columns),
            "parts": [
                (
                    p.name,
                    {
                        "subs": list(p.subpartitions),
                        "comment": p.comment,
                        "values": _plain(p.values),
                    },
                )
                for p in parts.partitions
            ],
        }
    return {
        "engine": table.engine,
        "collation": table.collation,
        "comment": table.comment,
        "options": _options({k.lower(): v.lower() for k, v in table.options}),
        "versioned": table.versioned,
        "partitions": partitions,
        "foreign": sorted(foreign.lower() for foreign in table.foreign_keys),
        "periods": sorted((a.lower(), b.lower()) for _, (a, b) in table.periods),
    }


def differing_facts(mine: Values, theirs: Values) -> list[str]:
    """What differs, each as a short line."""
    found = []
    for key in mine:
        if key == "partitions" and mine[key] and theirs[key]:
            found += _differing_partitions(mine[key], theirs[key])
        elif mine[key] != theirs[key]:
            found.append(f"table: {key}: ours {mine[key]!r}, server {theirs[key]!r}")
    return found


def _differing_partitions(mine: Values, theirs: Values) -> list[str]:
    found = [
        f"partitioning: {key}: ours {mine[key]!r}, server {theirs[key]!r}"
        for key in ("method", "sub_method", "columns", "sub_columns")
        if key != "columns" or mine["method"] != "SYSTEM_TIME"
        if mine[key] != theirs[key]
    ]
    names = [[name for name, _ in side["parts"]] for side in (mine, theirs)]
    if names[0] != names[1]:
        return [*found, f"partitions: ours {names[0]}, server {names[1]}"]
    for (name, a), (_, b) in zip(mine["parts"], theirs["parts"], strict=True):
        for key in a:
            unknown = a[key] is None or b[key] is None
            if a[key] != b[key] and not unknown:
                found.append(f"partition {name}: {key}: ours {a[key]!r}, server {b[key]!r}")
    return found
