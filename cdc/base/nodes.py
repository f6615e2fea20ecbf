"""Names of databases in an upstream of several nodes: the node belongs to the name.

Two nodes of a fleet may have databases of one name, and their tables are different tables. So
where logs of nodes are read as one, a database is called ``node:database `` everywhere inside;
rules, messages and targets see the plain name. The space at the end is what tells such a name
apart: MySQL and MariaDB take no name that ends in one, while every other character may be part
of one.
"""

from __future__ import annotations

_BETWEEN = ":"
_END = " "
SHARDS = "shards"
"""Kind of an upstream of several servers that know nothing of each other."""
LONGEST = 30
"""Characters of a node's name: with it, that of a database fits where events have room for one."""


def qualified(node: str, schema: str) -> str:
    """The name of a node's database; ``schema`` may be empty (no default database)."""
    return f"{node}{_BETWEEN}{schema}{_END}"


def is_qualified(schema: str) -> bool:
    """Whether a name says on which node its database is."""
    return schema.endswith(_END)


def node_of(schema: str) -> str:
    """The node of a qualified name, ``""`` for any other."""
    return schema.partition(_BETWEEN)[0] if is_qualified(schema) else ""


def plain(schema: str) -> str:
    """The name that the database has on its own server."""
    return schema.partition(_BETWEEN)[2][: -len(_END)] if is_qualified(schema) else schema


def of_node(source: str) -> bool:
    """Whether the source of a GTID is told with its node, as in a log of several.

    A MySQL GTID may have a tag behind its uuid, which is longer than any node's name.
    """
    node, between, _ = source.partition(_BETWEEN)
    return bool(between) and len(node) <= LONGEST


def source_of(node: str, source: str) -> str:
    """The source of a GTID, or what stands for one, as a log of several nodes calls it."""
    return f"{node}{_BETWEEN}{source}"


def plain_source(source: str) -> str:
    """What the node itself calls it; a source without a node stays as it is."""
    return source.partition(_BETWEEN)[2] if of_node(source) else source


def node_of_source(source: str) -> str:
    """The node of such a source."""
    return source.partition(_BETWEEN)[0]
