"""A table and a plan → the table after ALTER TABLE, by the order rules of the servers.

Source: MySQL manual "ALTER TABLE Statement", MariaDB knowledge base "ALTER TABLE"; where they say
little, the servers were asked (``tests/ddl_diff``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc.schema.alter import Plan
from cdc.schema.charsets import charset_default
from cdc.schema.create import by_name, never_null, not_null
from cdc.schema.defaults import default_text
from cdc.schema.draft import FIRST, ColumnDraft, KeyDraft, Options
from cdc.schema.expressions import Default, with_renamed
from cdc.schema.indexes import STRINGS, draft_of, finish, rename_parts
from cdc.schema.partitions import changed, follow_renames, with_history
from cdc.schema.resolve import (
    as_wide_as,
    charset_pair,
    converted,
    promote_first_timestamp,
    resolve,
    stored_default,
)
from cdc.schema.session import Session
from cdc.schema.table import Column, Index, Partitioning, Table
from cdc.schema.tokens import DDLNotUnderstood

_Slot = Column | ColumnDraft


def alter(
    table: Table,
    plan: Plan,
    database: tuple[str, str],
    session: Session,
    current: tuple[str, str] | None = None,
) -> Table:
    """The table as it is behind the statement; a new name is not applied here.

    ``database`` is (charset, collation) of the table's database, ``current`` of the session's.
    """
    current = current or database
    present = (table.charset or "utf8mb4", table.collation or "utf8mb4_general_ci")
    options = plan.options
    # MySQL and older MariaDB: CONVERT TO … DEFAULT means the session's database.
    ours = session.mariadb and session.version >= (10, 9)
    converting = _charset(plan.convert, present, database if ours else current, session)
    default = _charset(options, converting, database, session)
    if not session.mariadb and plan.convert is not None and plan.convert.collation is not None:
        # MySQL: a collation that was said stays where only its character set is said again.
        said_again = options.charset == converting[0] and options.collation is None
        default = converting if said_again else default
    target = default if plan.convert is None else converting
    _without_conditional(table, plan)
    slots = promote_first_timestamp(_arranged(table, plan, session), session)
    columns = []
    for slot in slots:
        if isinstance(slot, ColumnDraft):
            column = resolve(slot, target, session, convert=plan.convert is not None)
            if (
                plan.convert is not None
                and slot.old_name is not None
                and _is_resized(slot, session)
            ):
                # MySQL sizes a redefined text by what the column held before.
                column = as_wide_as(table.columns[table.positions[slot.old_name]], column, session)
            columns.append(column)
        elif plan.convert is not None:
            columns.append(converted(slot, target, session))
        else:
            columns.append(slot)
    if session.mariadb:
        columns = _following(columns, slots, plan)
    keys = _keys(table, slots, plan, session)
    periods = {n: p for n, p in table.periods if n not in plan.drop_periods} | plan.periods
    done = tuple(not_null(column, never_null(keys, periods)) for column in columns)
    engine = options.engine or table.engine
    return replace(
        table,
        columns=done,
        indexes=finish(keys, by_name(done), periods, session, engine),
        charset=default[0],
        collation=default[1],
        comment=table.comment if options.comment is None else options.comment,
        engine=engine,
        versioned=table.versioned if options.versioned is None else options.versioned,
        partitioning=_partitioning(table, plan),
        periods=tuple(periods.items()),
        options=tuple(sorted({**dict(table.options), **options.others}.items())),
    )


def _partitioning(table: Table, plan: Plan) -> Partitioning | None:
    if plan.partitioning is not None:
        return with_history(table.partitioning, plan.partitioning)
    if plan.unpartitioned:
        return None
    if table.partitioning is None:
        return None
    if plan.partition_change is None:
        return follow_renames(table.partitioning, _renames(plan))
    return changed(table.partitioning, plan.partition_change)


def _is_resized(draft: ColumnDraft, session: Session) -> bool:
    newer = not session.mariadb and session.version >= (8, 0)
    return newer and draft.column.length is None


def _charset(
    said: Options | None, present: tuple[str, str], database: tuple[str, str], session: Session
) -> tuple[str, str]:
    if said is None:
        return present
    if said.default_charset:
        default = charset_default(*database, session)
        return charset_pair(None, said.collation, default, session)
    return charset_pair(said.charset, said.collation, present, session)


def _without_conditional(table: Table, plan: Plan) -> None:
    """Drops what IF [NOT] EXISTS makes void."""
    kept = []
    for draft in plan.changes:
        name = draft.old_name or draft.column.name.lower()
        exists = name in table.positions
        if draft.conditional and exists is (draft.old_name is None):
            continue
        kept.append(draft)
    plan.changes = kept
    present = {name for name, _ in table.periods} & plan.conditional_periods
    plan.periods = {n: p for n, p in plan.periods.items() if n not in present}
    there = {index.name.lower() for index in table.indexes}
    plan.keys = [k for k in plan.keys if not (k.conditional and k.name.lower() in there)]


def _arranged(table: Table, plan: Plan, session: Session) -> list[_Slot]:
    redefined: dict[str | None, ColumnDraft] = {
        d.old_name: d for d in plan.changes if d.old_name is not None
    }
    if session.mariadb:
        redefined = _without_twice(table, plan, redefined)
        _default_of_added(plan)
    slots: list[_Slot] = []
    for column in table.columns:
        name = column.name.lower()
        if name in plan.drops and name not in redefined:
            continue
        if name in redefined:
            slots.append(redefined[name])
            continue
        slots.append(_kept(column, plan, session))
    for missing in redefined:
        if missing not in table.positions:
            raise DDLNotUnderstood(f"there is no column {missing!r} in {table.full_name}")
    for draft in plan.changes:
        if draft.place is None:
            if draft.old_name is None:
                slots.append(draft)
            continue
        slots = [s for s in slots if s is not draft]
        if draft.place == FIRST:
            slots.insert(0, draft)
            continue
        at = next((i for i, s in enumerate(slots) if _name(s).lower() == draft.place), None)
        if at is None:
            raise DDLNotUnderstood(f"there is no column {draft.place!r} in {table.full_name}")
        slots.insert(at + 1, draft)
    first = table.columns[0]
    if not session.mariadb and _is_made_key(table) and slots and first in slots:
        # MySQL keeps a primary key that it made itself before all others.
        slots = [first, *(s for s in slots if s is not first)]
    return slots


def _without_twice(
    table: Table, plan: Plan, redefined: dict[str | None, ColumnDraft]
) -> dict[str | None, ColumnDraft]:
    """MariaDB: MODIFY of a column that the same statement adds is the column's definition."""
    for name in [n for n in redefined if n is not None and n not in table.positions]:
        draft = redefined[name]
        new = draft.column.name.lower()
        added = [d for d in plan.changes if d.old_name is None and d.column.name.lower() == new]
        if added:
            plan.changes = [d for d in plan.changes if d is not added[0]]
            draft.old_name = None
            del redefined[name]
    return redefined


def _default_of_added(plan: Plan) -> None:
    """MariaDB: ALTER COLUMN … SET DEFAULT may name a column that the same statement adds."""
    for draft in plan.changes:
        name = draft.column.name.lower()
        if draft.old_name is None and plan.defaults.get(name) is not None:
            default = plan.defaults[name] or Default(None)
            text = default_text(default, draft.column)
            draft.column = replace(
                draft.column, default=text, default_expression=default.expression
            )


def _is_made_key(table: Table) -> bool:
    first = table.columns[0]
    primary = next((index for index in table.indexes if index.primary), None)
    return (
        first.name.lower() == "my_row_id"
        and first.invisible
        and first.auto_increment
        and primary is not None
        and primary.columns == (first.name,)
    )


def _name(slot: _Slot) -> str:
    return slot.column.name if isinstance(slot, ColumnDraft) else slot.name


def _kept(column: Column, plan: Plan, session: Session) -> Column:
    """A column that is not redefined: its name, default or visibility may change."""
    name = column.name.lower()
    if name in plan.defaults and not _stays(column, session):
        default = plan.defaults[name] or Default(None)
        was_now = _is_now(column)
        text = default_text(default, column)
        column = replace(column, default=text, default_expression=default.expression)
        if session.mariadb and was_now:
            # MariaDB: the update goes with the default that it came with.
            column = replace(column, on_update=None)
        column = replace(column, default=stored_default(column))
    if name in plan.visible:
        column = replace(column, invisible=not plan.visible[name])
    if name in plan.renames:
        column = replace(column, name=plan.renames[name])
    return column


def _stays(column: Column, session: Session) -> bool:
    # MariaDB used to keep a default of CURRENT_TIMESTAMP whatever DROP or SET DEFAULT asked for;
    # an AUTO_INCREMENT column never gets a default.
    return column.auto_increment or (_is_now(column) and _keeps_now(session))


def _is_now(column: Column) -> bool:
    return column.default_expression and (column.default or "").startswith("current_timestamp(")


def _keeps_now(session: Session) -> bool:
    mended = {(10, 6): 22, (10, 11): 12, (11, 4): 6}
    first = mended.get(session.version[:2])
    if first is not None:
        return session.mariadb and session.version[2] < first
    return session.mariadb and session.version < (11, 8)


def _renames(plan: Plan) -> dict[str, str]:
    changes = {d.old_name: d.column.name for d in plan.changes if d.old_name is not None}
    return {old: new for old, new in {**plan.renames, **changes}.items() if old != new.lower()}


def _following(columns: list[Column], slots: Sequence[_Slot], plan: Plan) -> list[Column]:
    """Columns whose expressions name others by their new names: MariaDB writes them anew."""
    names = _renames(plan)
    if not names:
        return columns
    return [
        column
        if isinstance(slot, ColumnDraft) or column.expression is None
        else replace(column, expression=with_renamed(column.expression, names))
        for column, slot in zip(columns, slots, strict=True)
    ]


def _parts_now(table: Table, slots: Sequence[_Slot], plan: Plan) -> dict[str, _Slot]:
    """What a key's part on an old column is now on: the first column that is or has that name."""
    before = {new.lower(): old for old, new in plan.renames.items()}
    found: dict[str, _Slot] = {}
    for slot in slots:
        name = _name(slot).lower()
        name = slot.old_name or name if isinstance(slot, ColumnDraft) else before.get(name, name)
        found.setdefault(name, slot)
    return found


def _keys(table: Table, slots: Sequence[_Slot], plan: Plan, session: Session) -> list[KeyDraft]:
    now = _parts_now(table, slots, plan)
    names: dict[str, str | None] = {}
    replaced: dict[str, int] = {}
    for column in table.columns:
        name = column.name.lower()
        slot = now.get(name)
        names[name] = None if slot is None else _name(slot)
        is_new = isinstance(slot, ColumnDraft) and slot.old_name is None
        if is_new and column.data_type in STRINGS and column.length is not None:
            replaced[name] = column.length
    keys: list[KeyDraft] = []
    for index in table.indexes:
        if _dropped(index, plan):
            continue
        left = rename_parts(index, names, replaced)
        if left is None or _only_period(table, index, left):
            continue
        key = draft_of(left)
        name = index.name.lower()
        if name in plan.rename_keys:
            key.name = plan.rename_keys[name]
        if name in plan.visible_keys:
            key.visible = plan.visible_keys[name]
        keys.append(key)
    return keys + plan.keys


def _only_period(table: Table, before: Index, left: Index) -> bool:
    # MariaDB: a key WITHOUT OVERLAPS goes with the last of its other columns.
    periods = [{a.lower(), b.lower()} for _, (a, b) in table.periods]
    return len(left.columns) < len(before.columns) and {n.lower() for n in left.columns} in periods


def _dropped(index: Index, plan: Plan) -> bool:
    name = index.name.lower()
    return name in plan.drop_keys or (index.unique and name in plan.drop_constraints)
