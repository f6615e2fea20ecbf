"""The PARTITION BY clause and partition maintenance, as values.

Names that the server makes itself (``p0``, ``p0sp1``) are made the same way here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cdc.schema.expressions import balanced, with_renamed
from cdc.schema.options import engine_name
from cdc.schema.table import Partition, Partitioning
from cdc.schema.tokens import Cursor, DDLNotUnderstood, Kind

_METHODS = ("RANGE", "LIST", "HASH", "KEY", "SYSTEM_TIME")


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """One maintenance action that changes which partitions there are.

    ``kind`` is ADD, DROP, COALESCE or REORGANIZE; ``names`` are lower-case, ``made`` are the
    definitions that it brings, ``count`` is the number behind PARTITIONS or COALESCE PARTITION.
    """

    kind: str
    names: tuple[str, ...] = ()
    made: tuple[Partition, ...] = ()
    count: int = 0
    conditional: bool = False


def read_partitioning(c: Cursor) -> Partitioning | None:
    """``PARTITION BY …`` with all that belongs to it, if it comes next."""
    if not c.word("PARTITION", "BY"):
        return None
    method, expression = _method(c)
    count = _number(c) if c.word("PARTITIONS") else 0
    sub_method = sub_expression = ""
    sub_count = 0
    if c.word("SUBPARTITION", "BY"):
        sub_method, sub_expression = _method(c)
        sub_count = (_number(c) if c.word("SUBPARTITIONS") else 0) or 1
    made = read_definitions(c) if _opens_definitions(c) else ()
    if not made:
        made = _default_partitions(method, count)
    parts = Partitioning(method, expression, sub_method, sub_expression)
    return replace(parts, partitions=_with_subs(parts, made, sub_count))


def _method(c: Cursor) -> tuple[str, str]:
    linear = "LINEAR " if c.word("LINEAR") else ""
    item = c.next()
    if not item.is_word(*_METHODS):
        raise c.error("the method of partitioning is not understood")
    method = item.text.upper()
    if method == "SYSTEM_TIME":
        return method, _system_time(c)
    if c.word("ALGORITHM"):
        c.punct("=")
        c.next()
    columns = " COLUMNS" if c.word("COLUMNS") else ""
    return linear + method + columns, balanced(c)


def _system_time(c: Cursor) -> str:
    # [INTERVAL n unit [STARTS x]] [LIMIT n] [AUTO]
    first = c.peek()
    while (item := c.peek()) is not None and not item.is_punct(","):
        second = c.peek(1)
        if item.is_word("PARTITIONS", "SUBPARTITION"):
            break
        if item.is_punct("("):
            if second is not None and second.is_word("PARTITION"):
                break
            c.skip_group()
        else:
            c.next()
    if first is None or first is c.peek():
        return ""
    return c.text[first.start : c.items[c.at - 1].end]


def _number(c: Cursor) -> int:
    item = c.next()
    if item.kind is not Kind.NUMBER:
        raise c.error("a number of partitions was expected")
    return int(item.text)


def _opens_definitions(c: Cursor) -> bool:
    item = c.peek()
    return item is not None and item.is_punct("(")


def _default_partitions(method: str, count: int) -> tuple[Partition, ...]:
    if method == "SYSTEM_TIME":
        history = (Partition(f"p{i}", "HISTORY") for i in range((count or 2) - 1))
        return (*history, Partition("pn", "CURRENT"))
    return tuple(Partition(f"p{i}") for i in range(count or 1))


def read_definitions(c: Cursor) -> tuple[Partition, ...]:
    """``(PARTITION p …, …)``."""
    if not c.punct("("):
        raise c.error("definitions of partitions were expected")
    made: list[Partition] = []
    while True:
        # MariaDB lets the word be left out.
        following = c.peek(1)
        if following is not None and not following.is_word("VALUES"):
            c.word("PARTITION")
        made.append(read_definition(c))
        if c.punct(","):
            continue
        if c.punct(")"):
            return tuple(made)
        raise c.error("',' or ')' was expected in a list of partitions")


def read_definition(c: Cursor) -> Partition:
    """What stands behind the word PARTITION: name, values, options, subpartitions."""
    name = c.name()
    values = comment = engine = ""
    subs: tuple[str, ...] = ()
    of_subs = ""
    while (item := c.peek()) is not None and not (item.is_punct(",") or item.is_punct(")")):
        if c.word("VALUES") or item.is_word("HISTORY", "CURRENT", "DEFAULT"):
            values = _values(c)
        elif c.word("COMMENT"):
            c.punct("=")
            comment = c.next().text
        elif c.word("ENGINE"):
            c.punct("=")
            engine = engine_name(c.next().text) or ""
        elif item.is_punct("("):
            subs, of_subs = _subpartitions(c)
        elif item.is_word("WITH", "WITHOUT"):
            # MariaDB: CONVERT TABLE … TO PARTITION … WITH VALIDATION
            break
        else:
            c.next()
    return Partition(name, values, comment, subs, of_subs or engine)


def _values(c: Cursor) -> str:
    if c.word("LESS", "THAN"):
        item = c.peek()
        if item is not None and item.is_punct("("):
            return f"LESS THAN ({balanced(c)})"
        c.word("MAXVALUE")
        return "LESS THAN (MAXVALUE)"
    if c.word("IN"):
        return f"IN ({balanced(c)})"
    return c.next().text.upper()


def _subpartitions(c: Cursor) -> tuple[tuple[str, ...], str]:
    """Their names, and the engine that they name."""
    c.punct("(")
    names: list[str] = []
    engine = ""
    while True:
        if not c.word("SUBPARTITION"):
            raise c.error("SUBPARTITION was expected")
        names.append(c.name())
        while (item := c.peek()) is not None and not (item.is_punct(",") or item.is_punct(")")):
            if c.word("ENGINE"):
                c.punct("=")
                engine = engine_name(c.next().text) or ""
            else:
                c.next()
        if c.punct(","):
            continue
        c.next()
        return tuple(names), engine


def _with_subs(
    parts: Partitioning, made: tuple[Partition, ...], count: int
) -> tuple[Partition, ...]:
    if not parts.sub_method:
        return made
    known = max((len(p.subpartitions) for p in (*parts.partitions, *made)), default=0)
    number = max(count, known)
    return tuple(
        p
        if p.subpartitions
        else replace(p, subpartitions=tuple(f"{p.name}sp{i}" for i in range(number)))
        for p in made
    )


def read_change(c: Cursor, verb: str) -> PartitionChange | None:
    """The action behind ``verb``; None if it keeps the list of partitions as it is.

    The cursor is at the word PARTITION and is left behind the action.
    """
    c.next()
    if verb == "ADD":
        conditional = c.word("IF", "NOT", "EXISTS")
        _unlogged(c)
        if c.word("PARTITIONS"):
            return PartitionChange("ADD", count=_number(c))
        return PartitionChange("ADD", made=read_definitions(c), conditional=conditional)
    if verb == "DROP":
        conditional = c.word("IF", "EXISTS")
        return PartitionChange("DROP", _names(c), conditional=conditional)
    _unlogged(c)
    if verb == "COALESCE":
        return PartitionChange("COALESCE", count=_number(c))
    if verb == "REORGANIZE" and c.peek() is not None:
        names = _names(c)
        if not c.word("INTO"):
            raise c.error("INTO was expected")
        return PartitionChange("REORGANIZE", names, read_definitions(c))
    return None


def _unlogged(c: Cursor) -> None:
    if not c.word("NO_WRITE_TO_BINLOG"):
        c.word("LOCAL")


def _names(c: Cursor) -> tuple[str, ...]:
    names = [c.name().lower()]
    while c.punct(","):
        names.append(c.name().lower())
    return tuple(names)


def changed(parts: Partitioning, change: PartitionChange) -> Partitioning:
    """The partitioning behind the action."""
    present = parts.partitions
    if change.kind == "DROP":
        left = tuple(p for p in present if p.name.lower() not in change.names)
    elif change.kind == "COALESCE":
        left = present[: len(present) - change.count]
    elif change.kind == "REORGANIZE":
        left = _reorganized(parts, change)
    else:
        left = _added(parts, change)
    return replace(parts, partitions=left)


def follow_renames(parts: Partitioning, names: Mapping[str, str]) -> Partitioning:
    """The partitioning after columns were renamed; ``names`` is by lower-case old name."""
    return replace(
        parts,
        expression=with_renamed(parts.expression, names),
        sub_expression=with_renamed(parts.sub_expression, names),
    )


def with_history(before: Partitioning | None, after: Partitioning) -> Partitioning:
    """MariaDB: a table stays with its history partitions where the new clause names none."""
    by_time = before is not None and before.method == after.method == "SYSTEM_TIME"
    if before is None or not by_time or after.partitions != _default_partitions("SYSTEM_TIME", 0):
        return after
    return replace(after, partitions=before.partitions)


def _reorganized(parts: Partitioning, change: PartitionChange) -> tuple[Partition, ...]:
    made = _with_subs(parts, change.made, 0)
    at = [i for i, p in enumerate(parts.partitions) if p.name.lower() in change.names]
    if not at:
        raise DDLNotUnderstood(f"there is no partition {', '.join(change.names)!r}")
    kept = [p for i, p in enumerate(parts.partitions) if i not in at]
    return (*kept[: at[0]], *made, *kept[at[0] :])


def _free_number(present: tuple[Partition, ...], count: int) -> int:
    """The number of the first of ``count`` partitions whose names are all free."""
    there = {p.name.lower() for p in present}
    start = len(present) - 1
    while taken := [i for i in range(start, start + count) if f"p{i}" in there]:
        start = taken[-1] + 1
    return start


def _added(parts: Partitioning, change: PartitionChange) -> tuple[Partition, ...]:
    present = parts.partitions
    made = change.made
    if parts.method == "SYSTEM_TIME":
        # The current partition stays the last, so its number is free.
        start = _free_number(present, change.count)
        made = made or tuple(Partition(f"p{start + i}", "HISTORY") for i in range(change.count))
        made = _with_subs(parts, made, 0)
        return (*present[:-1], *made, present[-1])
    if not made:
        start = len(present)
        made = tuple(Partition(f"p{start + i}") for i in range(change.count))
    there = {p.name.lower() for p in present}
    if change.conditional:
        made = tuple(p for p in made if p.name.lower() not in there)
    return (*present, *_with_subs(parts, made, 0))
