"""The schema of several nodes as one: each node's databases under names of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from cdc.base.errors import InvalidError
from cdc.base.nodes import qualified
from cdc.base.ts import Ts
from cdc.schema.snapshot import CreateText, Schema, catalog, listed_copies, session_of


class NodesUnlike(InvalidError):
    """Nodes of one upstream differ in what decides how their statements are read."""

    code = "TG:ErrNodesUnlike"


def check_alike(upstream: str, servers: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Raises NodesUnlike unless one way to read statements fits all nodes.

    ``servers``: by node what its snapshot says of the server.
    """
    for (one, first), (other, second) in pairwise(servers):
        a, b = session_of(first), session_of(second)
        for what, ours, theirs in (
            ("kind", first["kind"], second["kind"]),
            ("version", _release(a.version), _release(b.version)),
            ("lower_case_table_names", a.lower_case_table_names, b.lower_case_table_names),
            (
                "explicit_defaults_for_timestamp",
                a.explicit_defaults_for_timestamp,
                b.explicit_defaults_for_timestamp,
            ),
        ):
            if ours != theirs:
                raise NodesUnlike(
                    f"{what} of node {one} is {ours}, of node {other} {theirs}",
                    object=f"upstream {upstream}",
                    hint="nodes of one upstream are servers of one release and alike in this;"
                    " make an upstream of each other",
                )


def _release(version: tuple[int, ...]) -> str:
    return f"{version[0]}.{version[1]}"


def united(nodes: Sequence[tuple[str, dict[str, Any]]], ts: Ts) -> dict[str, Any]:
    """One snapshot as of the merged log's ``ts`` out of one of each node, which are alike."""
    made: dict[str, Any] = {
        "ts": ts, "server": nodes[0][1]["server"], "databases": {}, "tables": {},
        "texts": [], "values": [], "others": [], "copies": [], "lost": [], "unkeyed": [],
    }  # fmt: skip
    for name, snapshot in nodes:
        _add(made, name, snapshot)
    return made


def _add(made: dict[str, Any], node: str, snapshot: dict[str, Any]) -> None:
    for database, options in snapshot["databases"].items():
        made["databases"][qualified(node, database)] = options
    for (schema, name), source in Schema(snapshot).sources.items():
        there = qualified(node, schema)
        if isinstance(source, CreateText):
            made["texts"].append([there, name, *source])
        else:
            made["values"].append([there, {**source, "schema": there}])
    made["others"] += [[qualified(node, d), n] for d, n in snapshot.get("others", ())]
    for database, name, value in listed_copies(catalog(snapshot)):
        made["copies"].append([qualified(node, database), name, _copy(node, value)])
    for kind in ("lost", "unkeyed"):
        for (schema, name), *said in snapshot.get(kind, ()):
            made[kind].append([[qualified(node, schema), name], *said])


def _copy(node: str, value: dict[str, Any]) -> dict[str, Any]:
    """What is known of a copy: the model's former self and the sessions of its ALTERs move too."""
    known, replaced = value["alterations"], value["replaced"]
    if known is not None:
        known = [
            [sql, {**session, "default_schema": qualified(node, session.get("default_schema", ""))}]
            for sql, session in known
        ]
    if replaced is not None:
        replaced = {**replaced, "schema": qualified(node, replaced["schema"])}
    return {**value, "alterations": known, "replaced": replaced}
