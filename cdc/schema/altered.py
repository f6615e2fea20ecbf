"""A table and a plan → the table after ALTER TABLE, by the order rules of the servers.

Source: MySQL manual "ALTER TABLE Statement", MariaDB knowledge base "ALTER TABLE"; where they say
little, the servers were asked (``tests/ddl_diff``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from cdc.schema.alter import Plan
from cdc.schema.create import by_name, never_null
from cdc.schema.defaults import default_text
from cdc.schema.draft import FIRST, ColumnDraft, KeyDraft, Options
from cdc.schema.expressions import Default, with_renamed
from cdc.schema.foreign import given_name, with_made
from cdc.schema.indexes import STRINGS, draft_of, finish, longest_part, rename_parts
from cdc.schema.partitions import changed, follow_renames, with_history
from cdc.schema.resolve import (
    LONGEST_TABLE_COMMENT,
    as_wide_as,
    converted,
    not_null,
    promote_first_timestamp,
    resolve,
    said_pair,
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
    # COLLATE DEFAULT is that of the character set that the table had.
    before = present if options.default_collation and options.charset is None else converting
    default = _charset(options, before, database, session)
    if not session.mariadb and plan.convert is not None and plan.convert.collation is not None:
        # MySQL: a collation that was said stays where only its character set is said again.
        said_again = options.charset == converting[0] and options.collation is None
        default = converting if said_again else default
    target = default if plan.convert is None else converting
    # Where the table's own may be another than that of CONVERT TO, a new column begins with it.
    beginning = default if ours else target
    _without_conditional(table, plan, session)
    slots = promote_first_timestamp(_arranged(table, plan, session), session)
    columns = []
    for slot in slots:
        if isinstance(slot, ColumnDraft):
            column = resolve(
                slot, beginning, session, target=None if plan.convert is None else converting
            )
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
    periods = _kept_periods(table, plan) | plan.periods
    if options.versioned is False:
        # The columns of this one go in the same statement.
        periods.pop("system_time", None)
    done = tuple(not_null(column, never_null(keys, periods), session) for column in columns)
    engine = options.engine or table.engine
    others = {**dict(table.options), **options.others}
    longest = longest_part(engine, others, session)
    indexes = finish(keys, by_name(done), periods, session, longest)
    in_place = session.mariadb and (11, 2) <= session.version < (11, 8, 7) and engine == "innodb"
    if in_place and _only_names_keys(table, plan, indexes):
        # It compares names without case, and finds that there is nothing to do (seen on 11.4.5 and
        # 11.8.6; 10.11 and 11.8.9 do not).
        indexes = table.indexes
    return replace(
        table,
        columns=done,
        indexes=indexes,
        charset=default[0],
        collation=default[1],
        comment=table.comment
        if options.comment is None
        else options.comment[:LONGEST_TABLE_COMMENT],
        engine=engine,
        versioned=table.versioned if options.versioned is None else options.versioned,
        partitioning=_partitioning(table, plan),
        periods=tuple(periods.items()),
        options=tuple(sorted(others.items())),
        foreign_keys=_foreign_keys(table, plan, engine),
    )


def _kept_periods(table: Table, plan: Plan) -> dict[str, tuple[str, str]]:
    names = _renames(plan)
    return {
        name: (names.get(start.lower(), start), names.get(end.lower(), end))
        for name, (start, end) in table.periods
        if name not in plan.drop_periods
    }


def _only_names_keys(table: Table, plan: Plan, indexes: Sequence[Index]) -> bool:
    """Whether keys are dropped and made again as they were, at most with capitals elsewhere."""
    if not plan.drop_keys or replace(plan, keys=[], drop_keys=set()) != Plan():
        return False
    if any(key.described for key in plan.keys):
        return False
    sides = (
        {index.name.lower(): replace(index, name="") for index in side}
        for side in (table.indexes, indexes)
    )
    before, after = sides
    return before == after


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
    return present if said is None else said_pair(said, present, database, session)


def _without_conditional(table: Table, plan: Plan, session: Session) -> None:
    """Drops what IF [NOT] EXISTS makes void."""
    kept: list[ColumnDraft] = []
    added: set[str] = set()
    for draft in plan.changes:
        name = draft.old_name or draft.column.name.lower()
        is_new = draft.old_name is None
        exists = name in table.positions or (is_new and name in added)
        if draft.conditional and exists is is_new:
            continue
        kept.append(draft)
        if is_new:
            added.add(name)
    plan.changes = kept
    present = {name for name, _ in table.periods} & plan.conditional_periods
    plan.periods = {n: p for n, p in plan.periods.items() if n not in present}
    # InnoDB copies the table where it has to check the new foreign key.
    in_place = not session.foreign_key_checks and not plan.rebuilt
    names = partial(given_name, session=session, in_place=in_place)
    plan.keys, plan.foreign = _needed_keys(table, plan.keys, names)


def _needed_keys(
    table: Table, keys: list[KeyDraft], given: Callable[[KeyDraft], str]
) -> tuple[list[KeyDraft], list[str]]:
    """Keys, and names of foreign keys, without those of IF NOT EXISTS that are there already.

    A name is there if a key of the table, or of the statement before it, has it. MariaDB takes the
    first column for the name of a key that has none.
    """
    there = {index.name.lower() for index in table.indexes}
    there_foreign = {name.lower() for name in table.foreign_keys}
    before: set[tuple[str, str]] = set()
    needed: list[KeyDraft] = []
    foreign: list[str] = []
    for key in keys:
        name = (key.name or key.parts[0].name).lower()
        if key.foreign is not None:
            if key.conditional and (name in there_foreign or ("FOREIGN", name) in before):
                continue
            before.add(("FOREIGN", name))
            foreign.append(given(key))
        if key.conditional and (name in there or (key.kind, name) in before):
            continue
        before.add((key.kind, name))
        needed.append(key)
    return needed, foreign


def _foreign_keys(table: Table, plan: Plan, engine: str) -> tuple[str, ...]:
    dropped = plan.drop_foreign | plan.drop_constraints
    present = [name for name in table.foreign_keys if name.lower() not in dropped]
    # Other engines read FOREIGN KEY and forget it.
    return with_made(table.name, present, plan.foreign if engine == "innodb" else ())


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
    """MariaDB: ALTER COLUMN … SET or DROP DEFAULT may name a column that the statement adds."""
    for draft in plan.changes:
        name = draft.column.name.lower()
        if draft.old_name is None and name in plan.defaults:
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
        column if isinstance(slot, ColumnDraft) else _renamed_within(column, names)
        for column, slot in zip(columns, slots, strict=True)
    ]


def _renamed_within(column: Column, names: dict[str, str]) -> Column:
    if column.expression is not None:
        return column.but(expression=with_renamed(column.expression, names))
    if column.default_expression and column.default is not None:
        return column.but(default=with_renamed(column.default, names))
    return column


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
            # Whoever names a key has made it.
            key.name, key.generated = plan.rename_keys[name], False
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
