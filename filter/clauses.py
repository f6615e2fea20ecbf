"""The clauses of ALTER TABLE as event types, and which of them are replicated."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.schema.alter import Plan
from cdc.schema.statement import AlterAction
from cdc.schema.table import Table


@dataclass(frozen=True, slots=True)
class DDLClause:
    """One clause: ``name`` for people, its ``types`` (empty if TiCDC has none for it).

    ``passes``: whether it is replicated. ``unlogged``: it changes rows without row events.
    """

    name: str
    types: tuple[str, ...] = ()
    passes: bool = True
    unlogged: bool = False


def clauses_of(action: AlterAction, table: Table | None) -> list[DDLClause]:
    """What an action is: ADD COLUMN (…) adds several columns, ALGORITHM and LOCK are no clause."""
    words, plan = action.words, action.plan
    head = words[0]
    if head in ("ALGORITHM", "LOCK", "WITH", "WITHOUT") and _only_how(words):
        return []
    if head == "ADD":
        return _add(words, plan)
    if head == "DROP":
        return [_drop(words, plan, table)]
    if head == "PARTITION":
        return [_typed("alter table partitioning")]
    return [_partition(words) or _changed(words, plan) or _option(words, plan)]


def _typed(name: str) -> DDLClause:
    return DDLClause(name, (name,))


def _only_how(words: tuple[str, ...]) -> bool:
    return words[0] in ("ALGORITHM", "LOCK") or words[1] == "VALIDATION"


def _add(words: tuple[str, ...], plan: Plan) -> list[DDLClause]:
    if plan.partition_change is not None:
        return [_typed("add table partition")]
    if plan.changes:
        return [_typed("add column") for _ in plan.changes]
    if plan.options.versioned:
        return [DDLClause("add system versioning")]
    if "FOREIGN" in words[:6]:
        return [_typed("add foreign key")]
    for key in plan.keys:
        kinds = {"PRIMARY": "add primary key", "FULLTEXT": "add fulltext index"}
        return [_typed(kinds.get(key.kind, "create index"))]
    return [DDLClause("add period" if plan.periods else "add check")]


def _drop(words: tuple[str, ...], plan: Plan, table: Table | None) -> DDLClause:
    if plan.partition_change is not None:
        return _typed("drop table partition")
    if plan.drops:
        return _typed("drop column")
    if plan.drop_keys:
        return _typed("drop primary key" if plan.drop_keys == {"primary"} else "drop index")
    if plan.drop_constraints:
        return _dropped_constraint(next(iter(plan.drop_constraints)), table)
    if words[1:3] == ("FOREIGN", "KEY"):
        return _typed("drop foreign key")
    return DDLClause("drop " + " ".join(words[1:3] if words[1] == "SYSTEM" else words[1:2]).lower())


def _dropped_constraint(name: str, table: Table | None) -> DDLClause:
    # A table does not remember its foreign keys and checks: what is no key of it is one of those.
    keys = {} if table is None else {i.name.lower(): i for i in table.indexes if i.unique}
    if name == "primary":
        return _typed("drop primary key")
    if name in keys:
        return _typed("drop primary key" if keys[name].primary else "drop index")
    return DDLClause("drop constraint", ("drop foreign key",))


_MAINTENANCE = {
    "TRUNCATE": "truncate table partition",
    "COALESCE": "reorganize table partition",
    "REORGANIZE": "reorganize table partition",
    "REMOVE": "remove table partitioning",
}


def _partition(words: tuple[str, ...]) -> DDLClause | None:
    """Partition maintenance, and what moves rows between tables."""
    second = words[1] if len(words) > 1 else ""
    if words[0] == "EXCHANGE" and second == "PARTITION":
        return _typed("exchange table partition")
    if words[0] == "CONVERT" and second in ("PARTITION", "TABLE"):
        return DDLClause(f"convert {second.lower()}")
    if second in ("PARTITION", "PARTITIONING") and words[0] in _MAINTENANCE:
        return _typed(_MAINTENANCE[words[0]])
    if words[0] in ("DISCARD", "IMPORT"):
        return DDLClause(f"{words[0].lower()} tablespace", passes=False, unlogged=True)
    if second == "PARTITION":
        return DDLClause(f"{words[0].lower()} partition", passes=False)
    return None


def _changed(words: tuple[str, ...], plan: Plan) -> DDLClause | None:
    if plan.renames or plan.changes or plan.visible:
        return _typed("modify column")
    if plan.rename_keys:
        return _typed("rename index")
    if plan.renamed:
        return _typed("rename table")
    if plan.visible_keys:
        return _typed("alter index visibility")
    if plan.defaults:
        return _typed("set default value")
    if plan.convert is not None:
        return _typed("modify table charset and collate")
    if words[0] == "ALTER":
        return DDLClause("alter check")
    return None


def _option(words: tuple[str, ...], plan: Plan) -> DDLClause:
    options = plan.options
    if options.charset or options.collation or options.default_charset:
        return _typed("modify table charset and collate")
    if options.comment is not None:
        return _typed("modify table comment")
    if options.versioned is not None:
        return DDLClause("system versioning")
    if words[0] == "AUTO_INCREMENT":
        return _typed("rebase auto id")
    if words[0] in ("TTL", "TTL_ENABLE", "TTL_JOB_INTERVAL"):
        return _typed("alter ttl info")
    return DDLClause(
        " ".join(words[:2] if words[0] in _TWO_WORDS else words[:1]).lower(), passes=False
    )


_TWO_WORDS = ("ENABLE", "DISABLE", "ORDER", "DATA", "INDEX")
