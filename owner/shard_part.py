"""What a schema change of one table means for the shard group that the table is in.

Tables of a group are one table at the target (:mod:`sink.dispatch.target`). A table that is made
joins its group, one that is dropped leaves it; what changes its definition is carried out when all
tables of the group have come to the same (:mod:`owner.shard_ddl`). What cannot be told of rows that
are at the target already is refused. DM: ``pkg/shardddl/pessimism``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cdc.base.errors import DefiniteError
from cdc.base.nodes import node_of
from cdc.schema.catalog import Catalog
from cdc.schema.effect import TableEffect, effect_of, filled_by_the_moment
from cdc.schema.statement import DdlStatement, Verb
from cdc.schema.table import Table
from filter.decision import DdlFilter
from sink.schema_change import SchemaChange

TableName = tuple[str, str]

Members = Mapping[TableName, Mapping[str, TableName]]
"""By name at the target the tables that become it: by their names in lower case, their names."""

_BY_HAND = "carry it out at the target by hand, then skip it for each table: cdc cli ddl skip"


class ShardChangeRefused(DefiniteError):
    """A schema change of a table in a shard group that the target cannot follow."""

    code = "TG:ErrShardChangeRefused"


class ShardRole(StrEnum):
    """What a table does in its group by a schema change."""

    FIRST = "first"  # It is made, and the target with it.
    JOIN = "join"  # It is made, and the target is there.
    MOVE = "move"  # It gets another name in the group.
    CHANGE = "change"  # Its definition changes.
    LEAVE = "leave"  # It is gone; its rows stay at the target.
    NOTHING = "nothing"  # IF [NOT] EXISTS, and nothing happened.


@dataclass(frozen=True, slots=True)
class ShardPart:
    """The part that a schema change of ``table`` has in its group.

    ``group`` is the name at the target. ``begins`` are lower-case names of tables that are members
    from this change on, ``leaves`` those that are none from it on, each with its group.
    ``definition`` is the table's behind it where it is made, before it where it changes, gets
    another name or leaves (that of the first that leaves); ``after`` is what one that changes or
    is made is behind it; ``effect`` is what changes. ``left`` are the tables that leave.
    """

    group: TableName
    role: ShardRole
    table: str
    begins: frozenset[str] = frozenset()
    leaves: tuple[tuple[TableName, str], ...] = ()
    definition: Table | None = None
    effect: TableEffect | None = None
    after: Table | None = None
    left: tuple[Table, ...] = ()

    @property
    def groups(self) -> frozenset[TableName]:
        """The groups that it is about."""
        return frozenset({self.group, *(group for group, _ in self.leaves)})

    @property
    def executes(self) -> bool:
        """Whether the target has anything to do."""
        return self.role in (ShardRole.FIRST, ShardRole.CHANGE)

    @property
    def why(self) -> str:
        """Why it has nothing to do."""
        target = ".".join(self.group)
        return {
            ShardRole.JOIN: f"the table joins the shard group of {target}, which is there",
            ShardRole.MOVE: f"both names are {target} at the target",
            ShardRole.LEAVE: f"the table leaves the shard group of {target}, which keeps its rows",
            ShardRole.NOTHING: f"nothing happened to its part of {target}",
        }.get(self.role, "")


def members(rules: DdlFilter, schemas: Catalog) -> Members:
    """The tables of each shard group."""
    found: dict[TableName, dict[str, TableName]] = {}
    names = rules.targets
    if names.merging:
        for name in rules.delivered(schemas, (n for n in schemas if names.merges(*n))):
            found.setdefault(names.target(*name), {})[".".join(name).lower()] = name
    return found


def part_of(
    statement: DdlStatement, change: SchemaChange, rules: DdlFilter, about: Sequence[TableName]
) -> ShardPart | None:
    """The part of a statement about the delivered tables ``about``, or None: of no group.

    Raises ShardChangeRefused.
    """
    names = rules.targets
    grouped = [name for name in about if names.merges(*name)]
    if not grouped:
        return None
    name = grouped[0]
    group, full = names.target(*name), ".".join(name).lower()
    if statement.renames:
        return _renamed(statement, change, rules, name)
    if statement.verb is Verb.DROP:
        if len(grouped) < len(about):
            raise _refused(name, group, "drops other tables too", "drop them one by one")
        return _left(change, rules, grouped)
    before, after = change.before.table(*name), change.after.table(*name)
    others = members(rules, change.before).get(group, {}).keys() - {full}
    if statement.verb is Verb.CREATE:
        if before is not None:
            if statement.replacing:
                raise _refused(name, group, "takes the rows of one table away")
            return ShardPart(group, ShardRole.NOTHING, full)
        role = ShardRole.JOIN if others else ShardRole.FIRST
        return ShardPart(group, role, full, frozenset({full}), definition=after, after=after)
    if statement.verb is Verb.TRUNCATE or statement.destroys_rows or statement.moves:
        raise _refused(name, group, "takes the rows of one table away")
    if before is None or after is None:
        return ShardPart(group, ShardRole.NOTHING, full)
    column = filled_by_the_moment(statement, before, after)
    if column and others:
        what = f"gives rows that are there values of {column} that differ from table to table"
        raise _refused(name, group, what)
    effect = effect_of(statement, before, after)
    return ShardPart(group, ShardRole.CHANGE, full, definition=before, effect=effect, after=after)


def _left(change: SchemaChange, rules: DdlFilter, tables: Sequence[TableName]) -> ShardPart:
    leaves = tuple((rules.targets.target(*n), ".".join(n).lower()) for n in tables)
    group, table = leaves[0]
    definition = change.before.table(*tables[0])
    left = tuple(found for n in tables if (found := change.before.table(*n)) is not None)
    return ShardPart(group, ShardRole.LEAVE, table, leaves=leaves, definition=definition, left=left)


def _renamed(
    statement: DdlStatement, change: SchemaChange, rules: DdlFilter, name: TableName
) -> ShardPart:
    old, new = statement.renames[0]
    names = rules.targets
    group = names.target(*name)
    alone = len(statement.renames) == 1 and (
        statement.verb is Verb.RENAME or len(statement.actions) == 1
    )
    both = rules.rules.matches(*old) and rules.rules.matches(*new)
    if not alone or not both or names.target(*old) != names.target(*new):
        raise _refused(name, group, "takes a table in or out")
    if names.gives(*old) or names.gives(*new):
        raise _refused(name, group, "changes the name that columns of its rows are taken from")
    moved, definition = frozenset({".".join(new).lower()}), change.before.table(*old)
    return ShardPart(group, ShardRole.MOVE, ".".join(old).lower(), moved, definition=definition)


def of_database(
    statement: DdlStatement, change: SchemaChange, rules: DdlFilter
) -> tuple[str, ShardPart | None]:
    """Why the target keeps its database by a statement about one of the upstream ("": it follows),
    and the tables that leave their groups.

    Raises ShardChangeRefused where it would take tables of others with it.
    """
    names, schema = rules.targets, statement.schema
    if statement.kind not in ("create database", "drop database"):
        return "", None
    target = names.target_schema(schema)
    key = change.before.key(schema)
    inside = rules.delivered(change.before, inside_of(change.before, (schema,)))
    grouped = [n for n in inside if names.merges(*n)]
    shared = [
        d.name
        for k, d in change.before.databases.items()
        if k != key and rules.rules.matches_schema(d.name) and names.target_schema(d.name) == target
    ]
    if statement.kind == "create database" and not statement.replacing:
        return f"{target} is there for {shared[0]} too" if shared else "", None
    if statement.kind == "drop database" and grouped and len(grouped) == len(inside):
        return "its tables leave their shard groups, which keep their rows", _left(
            change, rules, grouped
        )
    if grouped or (shared and inside):
        raise _refused((schema, "*"), (target, "*"), "takes away what others have there")
    return "", None


def left_by(statement: DdlStatement, change: SchemaChange) -> str:
    """The node that leaves the upstream by a statement (``cdc.source.membership``), else ""."""
    if change.session.node or statement.kind != "drop database":
        return ""
    return node_of(statement.schema)


def left_with_node(
    statement: DdlStatement, change: SchemaChange, rules: DdlFilter
) -> ShardPart | None:
    """The tables that leave their groups as their node leaves the upstream."""
    inside = rules.delivered(change.before, inside_of(change.before, (statement.schema,)))
    grouped = [name for name in inside if rules.targets.merges(*name)]
    return _left(change, rules, grouped) if grouped else None


def inside_of(schemas: Catalog, databases: Sequence[str]) -> list[TableName]:
    """The tables of these databases."""
    keys = {schemas.key(name) for name in databases}
    return [n for n in schemas if schemas.key(n[0]) in keys]


def _refused(
    name: TableName, group: TableName, what: str, hint: str = _BY_HAND
) -> ShardChangeRefused:
    return ShardChangeRefused(
        f"the statement {what}, and {'.'.join(group)} has rows of a shard group",
        object=".".join(name),
        hint=hint,
    )
