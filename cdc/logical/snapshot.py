"""The schema of logical tables where a log begins, out of the schemas of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cdc.base.errors import DefiniteError
from cdc.base.ts import Ts
from cdc.logical.errors import LogicalTablesDiffer
from cdc.logical.names import PartNames, TableName
from cdc.logical.shape import shown
from cdc.schema.snapshot import Schema
from cdc.schema.table import Table
from cdc.schema.table_json import encode


def logical_snapshot(
    names: PartNames, nodes: Sequence[tuple[str, dict[str, Any]]], ts: Ts
) -> dict[str, Any]:
    """A snapshot of the logical tables alone, as of the merged log's ``ts``.

    Raises LogicalTablesDiffer where parts of one table are defined differently: a schema change
    is going from node to node.
    """
    made: dict[str, Any] = {
        "ts": ts, "server": nodes[0][1]["server"], "databases": {}, "tables": {},
        "texts": [], "values": [], "others": [], "copies": [], "lost": [], "unkeyed": [],
    }  # fmt: skip
    found: dict[TableName, tuple[str, Table]] = {}
    lost: dict[TableName, DefiniteError] = {}
    for node, snapshot in nodes:
        for database, options in snapshot["databases"].items():
            logical = names.database(database)
            if logical is not None:
                made["databases"].setdefault(logical, options)
        schema = Schema(snapshot)
        for key in schema:
            name = names.of(node, *key)
            if name is None:
                continue
            try:
                part = shown(schema[key])
            except DefiniteError as error:
                lost[name] = error
                continue
            where = f"{node}:{part.full_name}"
            table = replace(part, schema=name[0], name=name[1])
            first = found.setdefault(name, (where, table))
            _check(first, (where, table), name)
    made["values"] = [[n[0], encode(t)] for n, (_, t) in found.items() if n not in lost]
    made["lost"] = [[list(name), ts, error.marked()] for name, error in lost.items()]
    return made


def _check(one: tuple[str, Table], other: tuple[str, Table], name: TableName) -> None:
    (here, a), (there, b) = one, other
    if (a.columns, a.handle_key) != (b.columns, b.handle_key):
        raise LogicalTablesDiffer(
            f"its parts {here} and {there} are defined differently",
            object=".".join(name),
            hint="create the upstream while no schema change is under way, and give patterns under"
            " which each table's parts alone have its name",
        )
