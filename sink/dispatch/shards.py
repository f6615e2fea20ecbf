"""Tables that become one at the target (a shard group): whether they can."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cdc.base.errors import DefiniteError
from cdc.schema.definition import TableDefinition
from cdc.schema.joined import join
from cdc.schema.table import Column, Index, Table
from sink.dispatch.target import TargetRouter


class ShardTablesDiffer(DefiniteError):
    """Tables that would become one at the target have different definitions."""

    code = "TG:ErrShardTablesDiffer"


def check_groups(names: TargetRouter, tables: Iterable[Table], *, by_name: bool = False) -> None:
    """Raise :class:`ShardTablesDiffer` for the first table that is not as the first of its group.

    Columns must have the same names, types and places, keys the same columns: the same bytes must
    mean the same row, and the same values the same key. ``by_name``: it is enough that they have a
    join.
    """
    if not names.merging:
        return
    if by_name:
        _check_joins(names, tables)
        return
    first: dict[tuple[str, str], Table] = {}
    for table in tables:
        target = names.target(table.schema, table.name)
        model = first.setdefault(target, table)
        what = difference(model, table)
        if what:
            raise ShardTablesDiffer(
                f"would become {'.'.join(target)} as {model.full_name} does, but {what}",
                object=table.full_name,
                hint="give them one definition, or different names in sink.dispatchers",
            )


def _check_joins(names: TargetRouter, tables: Iterable[Table]) -> None:
    groups: dict[tuple[str, str], list[Table]] = {}
    for table in tables:
        groups.setdefault(names.target(table.schema, table.name), []).append(table)
    for target, of_group in groups.items():
        for why in join(of_group).conflicts.values():
            raise ShardTablesDiffer(
                f"its tables have no definition in common: {why}",
                object=".".join(target),
                hint="give them definitions that fit, or different names in sink.dispatchers",
            )


def joined_definitions(
    names: TargetRouter, definitions: Sequence[TableDefinition]
) -> list[TableDefinition]:
    """Each with the definition that its shard group's tables have at the target.

    Where that is not its own, it has no text of its server any more.
    """
    groups: dict[tuple[str, str], list[Table]] = {}
    for definition in definitions:
        table = definition.table
        groups.setdefault(names.target(table.schema, table.name), []).append(table)
    found = []
    for definition in definitions:
        own = definition.table
        made = join(groups[names.target(own.schema, own.name)], like=own).table
        if made != own:
            definition = replace(definition, table=made, text="")
        found.append(definition)
    return found


def difference(one: Table, other: Table) -> str:
    """The first thing in which rows of two tables differ; "" if nothing."""
    for i, (a, b) in enumerate(zip(one.columns, other.columns, strict=False)):
        if a.name != b.name:
            return f"column {i + 1} is {a.name} there and {b.name} here"
        if _stored(a) != _stored(b):
            return f"column {a.name} is {_shown(a)} there and {_shown(b)} here"
    if len(one.columns) != len(other.columns):
        return f"there are {len(one.columns)} columns there and {len(other.columns)} here"
    there, here = _keys(one), _keys(other)
    if there != here:
        only = sorted(there ^ here)[0]
        return f"only one of them has the key ({', '.join(only[1])})"
    return ""


def _stored(column: Column) -> Column:
    """What decides about the bytes of a value, and about which values are equal."""
    return column.but(
        column_type="" if column.data_type in _WIDTHS else column.column_type,
        length=None if column.data_type in _WIDTHS else column.length,
        default=None,
        default_expression=False,
        on_update=None,
        auto_increment=False,
        comment="",
        invisible=False,
        expression=None,
    )


# Their length is a display width.
_WIDTHS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})


def _shown(column: Column) -> str:
    words = [column.column_type]
    words += [f"COLLATE {column.collation}"] if column.collation else []
    words += [] if column.nullable else ["NOT NULL"]
    words += [f"{column.generated} GENERATED"] if column.generated else []
    return " ".join(words)


def _keys(table: Table) -> set[tuple[bool, tuple[str, ...], tuple[int | None, ...]]]:
    return {_key(i) for i in table.indexes if i.primary or i.unique}


def _key(index: Index) -> tuple[bool, tuple[str, ...], tuple[int | None, ...]]:
    columns = tuple(
        n.lower() if n else e for n, e in zip(index.columns, _texts(index), strict=True)
    )
    return index.primary, columns, index.prefixes


def _texts(index: Index) -> tuple[str, ...]:
    """The text of each functional part, in the places of the others nothing."""
    texts = iter(index.expressions)
    return tuple("" if name else next(texts, "") for name in index.columns)
