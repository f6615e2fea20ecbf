"""What a schema change does to the folded rows of one partition.

The rows themselves come as messages; a change moves, empties and forgets tables, and drops or
renames columns. Values that the server made (defaults, conversions) are in no message: they are
marked, not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from cdc.schema.alter import Plan, read_actions, read_alter_head
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.tokens import Cursor, Item, read_statement
from cdc.verify.folded_part import EVERYTHING, FoldedPart, Name

Tables = dict[Name, FoldedPart]


def apply(tables: Tables, sql: str, session: Session, since: int) -> set[Name]:
    """Carry a statement out; the names that its tables had before, where they were renamed."""
    seen = read_ddl(sql, session)
    c = read_statement(sql, session)
    if seen.kind == "create table":
        _create(tables, seen.tables[0], c, since)
    elif seen.kind == "truncate table":
        for name in seen.tables:
            tables[name] = tables.get(name, FoldedPart()).emptied(since)
    elif seen.kind == "drop table":
        for name in seen.tables:
            tables.pop(name, None)
    elif seen.kind == "drop database":
        for name in [n for n in tables if n[0] in seen.schemas]:
            tables.pop(name)
    elif seen.kind == "rename table":
        return _renamed(tables, seen.renames, since)
    elif seen.kind == "alter table":
        return _alter(tables, c, session, since)
    else:
        for name in seen.tables:
            _note(tables, name, since)
    return set()


def _create(tables: Tables, name: Name, c: Cursor, since: int) -> None:
    conditional = any(a.is_word("IF") for a in c.items[:4])
    if not conditional or name not in tables:
        # It may have been there all along, with rows that no message tells.
        tables[name] = FoldedPart(since=since, complete=not conditional)


def _note(tables: Tables, name: Name, since: int) -> None:
    """Its rows stay, but their keys may be placed otherwise from now on."""
    tables.setdefault(name, FoldedPart()).changed(since, frozenset(), {}, frozenset())


def _renamed(tables: Tables, pairs: Iterable[tuple[Name, Name]], since: int) -> set[Name]:
    for old, new in pairs:
        tables[new] = tables.pop(old, FoldedPart())
        _note(tables, new, since)
    return {old for old, _ in pairs}


def _alter(tables: Tables, c: Cursor, session: Session, since: int) -> set[Name]:
    name = read_alter_head(c, session)
    start = c.at
    plan = read_actions(c, session)
    part = tables.setdefault(name, FoldedPart())
    renamed = dict(plan.renames)
    unsaid = set()
    for draft in plan.changes:
        if draft.old_name and draft.old_name.lower() != draft.column.name.lower():
            renamed[draft.old_name.lower()] = draft.column.name
        unsaid.add(draft.column.name)
    part.changed(since, frozenset(plan.drops), renamed, frozenset(unsaid))
    _partitions(tables, name, c.items[start:], plan, session, since)
    if plan.rename_to is None:
        return set()
    tables[plan.rename_to] = tables.pop(name)
    return {name}


def _partitions(
    tables: Tables, name: Name, items: list[Item], plan: Plan, session: Session, since: int
) -> None:
    """Partitions that go take rows with them which no message names."""
    words = [i.text.upper() for i in items]
    pairs = set(pairwise(words))
    if ("TRUNCATE", "PARTITION") in pairs or (
        plan.partition_change is not None and plan.partition_change.kind == "DROP"
    ):
        tables[name].lost = since
    others = [plan.partition_to, plan.partition_from]
    if ("EXCHANGE", "PARTITION") in pairs:
        c = Cursor("", items)
        while not c.word("WITH", "TABLE"):
            c.next()
        others.append(c.table(session))
    for other in others:
        if other is not None:
            for one in (tables[name], tables.setdefault(other, FoldedPart())):
                one.changed(since, frozenset(), {}, EVERYTHING)
                one.lost, one.complete = since, False
