"""The actions of ALTER TABLE, read into a plan. What the plan does is in ``cdc.schema.altered``."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc.schema.columns import column_name, read_column
from cdc.schema.draft import FIRST, Body, ColumnDraft, KeyDraft, Options
from cdc.schema.elements import read_constraint
from cdc.schema.expressions import Default, read_default
from cdc.schema.indexes import inline_keys
from cdc.schema.options import read_charset_or_collation, read_option
from cdc.schema.partitions import (
    PartitionChange,
    read_change,
    read_definition,
    read_partitioning,
)
from cdc.schema.session import Session
from cdc.schema.table import Partitioning
from cdc.schema.tokens import Cursor, Kind


@dataclass(slots=True)
class Plan:
    """What one ALTER TABLE asks for. Names of existing columns and keys are in lower case.

    ``changes`` are ADD, CHANGE and MODIFY in the order of the statement; ``renames`` are RENAME
    COLUMN; ``renamed`` says that the table gets a new name, which the statement has as it has all
    names of tables; ``defaults`` and ``visible`` are ALTER COLUMN;
    ``convert`` is the target of CONVERT TO; ``rebuilt`` says that the table is made anew;
    ``foreign`` are names of new foreign keys, empty where none was given.
    """

    changes: list[ColumnDraft] = field(default_factory=list)
    renames: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, Default | None] = field(default_factory=dict)
    visible: dict[str, bool] = field(default_factory=dict)
    drops: set[str] = field(default_factory=set)
    keys: list[KeyDraft] = field(default_factory=list)
    drop_keys: set[str] = field(default_factory=set)
    drop_constraints: set[str] = field(default_factory=set)
    drop_foreign: set[str] = field(default_factory=set)
    rename_keys: dict[str, str] = field(default_factory=dict)
    visible_keys: dict[str, bool] = field(default_factory=dict)
    periods: dict[str, tuple[str, str]] = field(default_factory=dict)
    conditional_periods: set[str] = field(default_factory=set)
    drop_periods: set[str] = field(default_factory=set)
    options: Options = field(default_factory=Options)
    convert: Options | None = None
    renamed: bool = False
    partitioning: Partitioning | None = None
    unpartitioned: bool = False
    partition_change: PartitionChange | None = None
    rebuilt: bool = False
    foreign: list[str] = field(default_factory=list)


def read_actions(c: Cursor, session: Session) -> Plan:
    """Everything behind the table's name."""
    plan = Plan()
    while c.peek() is not None:
        if c.punct(","):
            continue
        read_action(c, plan, session)
    return plan


def read_action(c: Cursor, plan: Plan, session: Session) -> None:
    """One action, or one table option, into the plan."""
    item = c.peek()
    if item is None or item.kind not in (Kind.WORD, Kind.NAME):
        raise c.error("an action of ALTER TABLE was expected")
    word = item.word
    reader = _READERS.get(word)
    if reader is not None and reader(c, plan, session):
        return
    if _partition_action(c, plan, word):
        return
    partitioning = read_partitioning(c)
    if partitioning is not None:
        plan.partitioning = partitioning
        return
    if not read_option(c, plan.options):
        raise c.error("the action of ALTER TABLE is not understood")


def _place(c: Cursor, draft: ColumnDraft) -> ColumnDraft:
    if c.word("FIRST"):
        draft.place = FIRST
    elif c.word("AFTER"):
        draft.place = column_name(c).lower()
    return draft


def _add(c: Cursor, plan: Plan, session: Session) -> bool:
    c.next()
    if c.word("SYSTEM", "VERSIONING"):
        plan.options.versioned = True
        return True
    if _add_partition(c, plan):
        return True
    body = Body()
    if read_constraint(c, body, session):
        plan.keys += body.keys
        for name, period in body.periods.items():
            if name not in body.conditional_periods:
                plan.periods[name] = period
            plan.periods.setdefault(name, period)
        plan.conditional_periods |= body.conditional_periods
        return True
    c.word("COLUMN")
    conditional = c.word("IF", "NOT", "EXISTS")
    item = c.peek()
    if item is not None and item.is_punct("("):
        c.next()
        while True:
            if not read_constraint(c, body, session):
                draft = read_column(c, session)
                body.columns.append(draft)
                body.keys += inline_keys(draft, session)
            if c.punct(")"):
                break
            if not c.punct(","):
                raise c.error("',' or ')' was expected")
        for draft in body.columns:
            draft.conditional = conditional
        plan.changes += body.columns
        plan.keys += body.keys
        plan.periods.update(body.periods)
        return True
    draft = _place(c, read_column(c, session))
    draft.conditional = conditional
    plan.changes.append(draft)
    plan.keys += inline_keys(draft, session)
    return True


def _add_partition(c: Cursor, plan: Plan) -> bool:
    # ADD PARTITION [IF NOT EXISTS] [LOCAL] (…) | PARTITIONS n; a column may be called "partition".
    item, second = c.peek(), c.peek(1)
    if item is None or not item.is_word("PARTITION") or second is None:
        return False
    if not second.is_punct("(") and not second.is_word(
        "PARTITIONS", "IF", "NO_WRITE_TO_BINLOG", "LOCAL"
    ):
        return False
    plan.partition_change = read_change(c, "ADD")
    return True


def _drop(c: Cursor, plan: Plan, session: Session) -> bool:
    c.next()
    if c.word("SYSTEM", "VERSIONING"):
        plan.options.versioned = False
    elif c.word("PRIMARY", "KEY"):
        plan.drop_keys.add("primary")
    elif c.word("FOREIGN", "KEY"):
        c.word("IF", "EXISTS")
        plan.drop_foreign.add(c.name().lower())
    elif c.word("CHECK"):
        c.word("IF", "EXISTS")
        c.name()
    elif c.word("CONSTRAINT"):
        c.word("IF", "EXISTS")
        if c.word("PRIMARY", "KEY"):
            plan.drop_keys.add("primary")
        else:
            plan.drop_constraints.add(c.name().lower())
    elif c.word("INDEX") or c.word("KEY"):
        c.word("IF", "EXISTS")
        plan.drop_keys.add(c.name().lower())
    elif c.word("PERIOD", "FOR") or c.word("PERIOD", "IF", "EXISTS", "FOR"):
        c.word("IF", "EXISTS")
        plan.drop_periods.add(c.name().lower())
    elif _drops_partition(c):
        plan.partition_change = read_change(c, "DROP")
    else:
        c.word("COLUMN")
        c.word("IF", "EXISTS")
        plan.drops.add(column_name(c).lower())
        if not c.word("RESTRICT"):
            c.word("CASCADE")
    return True


def _drops_partition(c: Cursor) -> bool:
    item, second = c.peek(), c.peek(1)
    if item is None or not item.is_word("PARTITION") or second is None:
        return False
    return second.kind is not Kind.PUNCT


def _change(c: Cursor, plan: Plan, session: Session) -> bool:
    c.next()
    c.word("COLUMN")
    conditional = c.word("IF", "EXISTS")
    old = column_name(c)
    draft = _place(c, read_column(c, session))
    draft.old_name, draft.conditional = old.lower(), conditional
    plan.changes.append(draft)
    plan.keys += inline_keys(draft, session)
    return True


def _modify(c: Cursor, plan: Plan, session: Session) -> bool:
    c.next()
    c.word("COLUMN")
    conditional = c.word("IF", "EXISTS")
    item = c.peek()
    if item is not None and item.is_punct("("):
        raise c.error("MODIFY of a list is not understood")
    draft = _place(c, read_column(c, session))
    draft.old_name, draft.conditional = draft.column.name.lower(), conditional
    plan.changes.append(draft)
    plan.keys += inline_keys(draft, session)
    return True


def _alter(c: Cursor, plan: Plan, session: Session) -> bool:
    c.next()
    if c.word("INDEX") or c.word("KEY"):
        c.word("IF", "EXISTS")
        name = c.name().lower()
        plan.visible_keys[name] = c.word("VISIBLE") or c.word("NOT", "IGNORED")
        if not plan.visible_keys[name]:
            c.next()
        return True
    if c.word("CHECK") or c.word("CONSTRAINT"):
        c.name()
        if not c.word("NOT", "ENFORCED") and not c.word("ENFORCED"):
            raise c.error("ENFORCED was expected")
        return True
    c.word("COLUMN")
    c.word("IF", "EXISTS")
    name = column_name(c).lower()
    if c.word("SET", "DEFAULT"):
        plan.defaults[name] = read_default(c, session)
    elif c.word("DROP", "DEFAULT"):
        plan.defaults[name] = None
    elif c.word("SET", "VISIBLE"):
        plan.visible[name] = True
    elif c.word("SET", "INVISIBLE"):
        plan.visible[name] = False
    else:
        raise c.error("ALTER COLUMN is not understood")
    return True


def _rename(c: Cursor, plan: Plan, session: Session) -> bool:
    c.next()
    if c.word("COLUMN"):
        c.word("IF", "EXISTS")
        old = column_name(c).lower()
        if not c.word("TO"):
            raise c.error("TO was expected")
        plan.renames[old] = column_name(c)
        return True
    if c.word("INDEX") or c.word("KEY"):
        c.word("IF", "EXISTS")
        old = c.name().lower()
        if not c.word("TO"):
            raise c.error("TO was expected")
        plan.rename_keys[old] = c.name()
        return True
    if not c.word("TO") and not c.word("AS"):
        c.punct("=")
    c.table(session)
    plan.renamed = True
    return True


def _convert(c: Cursor, plan: Plan, session: Session) -> bool:
    if c.word("CONVERT", "PARTITION"):
        plan.partition_change = PartitionChange("DROP", (c.name().lower(),))
        if not c.word("TO", "TABLE"):
            raise c.error("TO TABLE was expected")
        c.table(session)
        _skip_action(c)
        return True
    if c.word("CONVERT", "TABLE"):
        c.table(session)
        if not c.word("TO", "PARTITION"):
            raise c.error("TO PARTITION was expected")
        plan.partition_change = PartitionChange("ADD", made=(read_definition(c),))
        _skip_action(c)
        return True
    if not c.word("CONVERT", "TO"):
        return False
    if plan.convert is None or not session.mariadb or session.version < (10, 9):
        # Newer MariaDB joins what several CONVERT TO say.
        plan.convert = Options()
    if not session.mariadb or session.version < (10, 9):
        # MySQL: the last of CONVERT TO and the table's options decides; MariaDB: the options.
        plan.options.charset = plan.options.collation = None
    if not read_charset_or_collation(c, plan.convert):
        raise c.error("CHARACTER SET was expected")
    read_charset_or_collation(c, plan.convert)
    return True


def _order(c: Cursor, plan: Plan, session: Session) -> bool:
    if not c.word("ORDER", "BY"):
        return False
    # ORDER BY takes the commas that follow: only names and directions.
    while True:
        c.name()
        while c.punct("."):
            c.name()
        if not c.word("ASC"):
            c.word("DESC")
        if not c.punct(","):
            return True


def _nothing(c: Cursor, plan: Plan, session: Session) -> bool:
    """Actions and options that change no column and no key."""
    if c.word("ALGORITHM") or c.word("LOCK"):
        c.punct("=")
        plan.rebuilt = c.next().is_word("COPY") or plan.rebuilt
        return True
    if c.word("FORCE"):
        plan.rebuilt = True
        return True
    if c.word("DISABLE", "KEYS") or c.word("ENABLE", "KEYS"):
        return True
    if c.word("DISCARD", "TABLESPACE") or c.word("IMPORT", "TABLESPACE"):
        return True
    if c.word("WITH", "VALIDATION") or c.word("WITHOUT", "VALIDATION"):
        return True
    return c.word("SECONDARY_LOAD") or c.word("SECONDARY_UNLOAD")


_PARTITION_VERBS = (
    "TRUNCATE COALESCE REORGANIZE REBUILD OPTIMIZE ANALYZE CHECK REPAIR EXCHANGE DISCARD IMPORT "
    "REMOVE UPGRADE SECONDARY_LOAD SECONDARY_UNLOAD"
).split()


def _partition_action(c: Cursor, plan: Plan, word: str) -> bool:
    if word not in _PARTITION_VERBS:
        return False
    second = c.peek(1)
    if second is None or not second.is_word("PARTITION", "PARTITIONING", "TABLE"):
        return False
    if c.word("REMOVE", "PARTITIONING"):
        plan.unpartitioned = True
    elif word in ("COALESCE", "REORGANIZE"):
        c.next()
        plan.partition_change = read_change(c, word)
    else:
        _skip_action(c)
    return True


def _skip_action(c: Cursor) -> None:
    # Partition maintenance takes lists of names with commas, and nothing may follow it.
    while (item := c.peek()) is not None:
        if item.is_punct("("):
            c.skip_group()
        else:
            c.next()


_READERS = {
    "ADD": _add,
    "DROP": _drop,
    "CHANGE": _change,
    "MODIFY": _modify,
    "ALTER": _alter,
    "RENAME": _rename,
    "CONVERT": _convert,
    "ORDER": _order,
    "ALGORITHM": _nothing,
    "LOCK": _nothing,
    "DISABLE": _nothing,
    "ENABLE": _nothing,
    "FORCE": _nothing,
    "DISCARD": _nothing,
    "IMPORT": _nothing,
    "WITH": _nothing,
    "WITHOUT": _nothing,
    "SECONDARY_LOAD": _nothing,
    "SECONDARY_UNLOAD": _nothing,
}
