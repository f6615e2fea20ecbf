"""What a schema change does to the folded rows of one partition.

The rows themselves come as messages; a change moves, empties and forgets tables, and drops or
renames columns. Values that the server made (defaults, conversions) are in no message: they are
marked, not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable

from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.statement import DdlStatement, Verb
from cdc.verify.fold_store import FoldStore
from cdc.verify.folded_part import EVERYTHING, FoldedPart, Name

Tables = dict[Name, FoldedPart]


def apply(tables: Tables, sql: str, session: Session, since: int, store: FoldStore) -> set[Name]:
    """Carry a statement out; the names that its tables had before, where they were renamed.

    ``store`` is where tables that begin here keep their rows.
    """
    statement = read_ddl(sql, session)
    verb = statement.verb
    if verb is Verb.CREATE:
        _create(tables, statement, since, store)
    elif verb is Verb.TRUNCATE:
        for name in statement.tables:
            tables[name] = _of(tables, name, store).emptied(since)
    elif verb is Verb.DROP:
        for name in statement.tables:
            _forget(tables, name)
    elif statement.kind == "drop database":
        for name in [n for n in tables if n[0] in statement.schemas]:
            _forget(tables, name)
    elif verb is Verb.RENAME:
        return _renamed(tables, statement.renames, since, store)
    elif verb is Verb.ALTER and statement.tables:
        return _alter(tables, statement, since, store)
    else:
        for name in statement.tables:
            _note(tables, name, since, store)
    return set()


def _of(tables: Tables, name: Name, store: FoldStore) -> FoldedPart:
    found = tables.get(name)
    if found is None:
        found = tables[name] = FoldedPart(store)
    return found


def _forget(tables: Tables, name: Name) -> None:
    if (part := tables.pop(name, None)) is not None:
        part.forget()


def _create(tables: Tables, statement: DdlStatement, since: int, store: FoldStore) -> None:
    name, conditional = statement.tables[0], statement.conditional
    if not conditional or name not in tables:
        # It may have been there all along, with rows that no message tells.
        _forget(tables, name)
        tables[name] = FoldedPart(store, since=since, complete=not conditional)


def _note(tables: Tables, name: Name, since: int, store: FoldStore) -> None:
    """Its rows stay, but their keys may be placed otherwise from now on."""
    _of(tables, name, store).changed(since, frozenset(), {}, frozenset())


def _renamed(
    tables: Tables, pairs: Iterable[tuple[Name, Name]], since: int, store: FoldStore
) -> set[Name]:
    for old, new in pairs:
        tables[new] = _of(tables, old, store)
        del tables[old]
        _note(tables, new, since, store)
    return {old for old, _ in pairs}


def _alter(tables: Tables, statement: DdlStatement, since: int, store: FoldStore) -> set[Name]:
    name = statement.tables[0]
    plans = [action.plan for action in statement.actions]
    part = _of(tables, name, store)
    renamed = {old: new for plan in plans for old, new in plan.renames.items()}
    unsaid = set()
    for draft in (draft for plan in plans for draft in plan.changes):
        if draft.old_name and draft.old_name.lower() != draft.column.name.lower():
            renamed[draft.old_name.lower()] = draft.column.name
        unsaid.add(draft.column.name)
    part.changed(since, statement.dropped_columns, renamed, frozenset(unsaid))
    _partitions(tables, statement, since, store)
    for old, new in statement.renames:
        tables[new] = tables.pop(old)
    return {old for old, _ in statement.renames}


def _partitions(tables: Tables, statement: DdlStatement, since: int, store: FoldStore) -> None:
    """Partitions that go take rows with them which no message names."""
    changes = (action.plan.partition_change for action in statement.actions)
    dropped = any(change is not None and change.kind == "DROP" for change in changes)
    if statement.destroys_rows or dropped:
        tables[statement.tables[0]].lost = since
    for pair in statement.moves:
        for name in pair:
            part = _of(tables, name, store)
            part.changed(since, frozenset(), {}, EVERYTHING)
            part.lost, part.complete = since, False
