"""The clauses of ALTER TABLE as event types, and which of them are replicated."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.schema.alter import Plan
from cdc.schema.session import Session
from cdc.schema.table import Table
from cdc.schema.tokens import Cursor, Item

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DDLClause:
    """One clause: ``name`` for people, its ``types`` (empty if TiCDC has none for it).

    ``passes``: whether it is replicated. ``others``: tables that it exchanges rows with.
    ``unlogged``: it changes rows without row events.
    """

    name: str
    types: tuple[str, ...] = ()
    passes: bool = True
    others: tuple[Name, ...] = ()
    unlogged: bool = False


def clause_of(
    c: Cursor, at: int, plan: Plan, session: Session, table: Table | None
) -> list[DDLClause]:
    """What stands between item ``at`` and the cursor, which ``plan`` was read from.

    A list, since ADD COLUMN (…) adds several columns, and ALGORITHM and LOCK are no clause at all.
    """
    words = [i.word for i in c.items[at : c.at]]
    head = words[0]
    if head in ("ALGORITHM", "LOCK", "WITH", "WITHOUT") and _only_how(words):
        return []
    if head == "ADD":
        return _add(words, plan)
    if head == "DROP":
        return [_drop(words, plan, table)]
    if head == "PARTITION":
        return [_typed("alter table partitioning")]
    found = _partition(c.items[at : c.at], words, session) or _changed(words, plan)
    return [found or _option(words, plan)]


def _typed(name: str) -> DDLClause:
    return DDLClause(name, (name,))


def _only_how(words: list[str]) -> bool:
    return words[0] in ("ALGORITHM", "LOCK") or words[1] == "VALIDATION"


def _add(words: list[str], plan: Plan) -> list[DDLClause]:
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


def _drop(words: list[str], plan: Plan, table: Table | None) -> DDLClause:
    if plan.partition_change is not None:
        return _typed("drop table partition")
    if plan.drops:
        return _typed("drop column")
    if plan.drop_keys:
        return _typed("drop primary key" if plan.drop_keys == {"primary"} else "drop index")
    if plan.drop_constraints:
        return _dropped_constraint(next(iter(plan.drop_constraints)), table)
    if words[1:3] == ["FOREIGN", "KEY"]:
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


def _partition(items: list[Item], words: list[str], session: Session) -> DDLClause | None:
    """Partition maintenance, and what moves rows between tables."""
    second = words[1] if len(words) > 1 else ""
    if words[0] == "EXCHANGE" and second == "PARTITION":
        return DDLClause(
            "exchange table partition",
            ("exchange table partition",),
            others=(_behind(items, words, "TABLE", session),),
        )
    if words[0] == "CONVERT" and second in ("PARTITION", "TABLE"):
        other = _behind(items, words, "TABLE", session)
        return DDLClause(f"convert {second.lower()}", others=(other,))
    if second in ("PARTITION", "PARTITIONING") and words[0] in _MAINTENANCE:
        return _typed(_MAINTENANCE[words[0]])
    if words[0] in ("DISCARD", "IMPORT"):
        return DDLClause(f"{words[0].lower()} tablespace", passes=False, unlogged=True)
    if second == "PARTITION":
        return DDLClause(f"{words[0].lower()} partition", passes=False)
    return None


def _behind(items: list[Item], words: list[str], word: str, session: Session) -> Name:
    at = words.index(word) + 1
    if at + 2 < len(items) and items[at + 1].is_punct("."):
        return items[at].text, items[at + 2].text
    return session.default_schema, items[at].text


def _changed(words: list[str], plan: Plan) -> DDLClause | None:
    if plan.renames or plan.changes or plan.visible:
        return _typed("modify column")
    if plan.rename_keys:
        return _typed("rename index")
    if plan.rename_to is not None:
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


def _option(words: list[str], plan: Plan) -> DDLClause:
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
