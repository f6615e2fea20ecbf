"""Which of TiCDC's event types a statement has, and which tables it is about.

A statement has every name under which ``ignore-event`` can mean it: a multi-clause ALTER has the
types of all its clauses and ``multi schema change``; names of v6.5 keep their meaning, so every
clause of ALTER TABLE, CREATE INDEX and DROP INDEX is ``alter table`` too.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.schema.alter import Plan, read_action, read_alter_head
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.statement import DdlStatement
from cdc.schema.table import Table
from cdc.schema.tokens import Cursor, read_statement
from filter.clauses import DDLClause, clause_of
from filter.event_types import ALL_DDL, ALTER_TABLE, MULTI

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DdlTypes:
    """What a DDL statement is, for the filter.

    ``name`` is its one type for people. ``types`` are all names by which ``ignore-event`` means it,
    ``clauses`` those of each clause of an ALTER TABLE. ``tables`` are the tables or views that it
    names (of a rename: the old names, in their order), ``schemas`` the databases of a schema-level
    DDL. ``renames`` are its steps (old, new), in order. ``moves`` are pairs of tables between which
    rows go without row events (EXCHANGE and CONVERT PARTITION). ``discarded`` says why it is
    outside the allow-list, and is empty if it is in. ``unlogged`` is the clause that changes rows
    of which the binlog says nothing (IMPORT TABLESPACE), else empty.
    """

    name: str
    types: frozenset[str]
    clauses: tuple[frozenset[str], ...] = ()
    tables: tuple[Name, ...] = ()
    schemas: tuple[str, ...] = ()
    renames: tuple[tuple[Name, Name], ...] = ()
    moves: tuple[tuple[Name, Name], ...] = ()
    discarded: str = ""
    unlogged: str = ""

    @property
    def schema_level(self) -> bool:
        """Whether it is about whole databases."""
        return bool(self.schemas)


# Statements by the words of ``cdc.schema.ddl``: their type for people, and its other names.
_STATEMENTS = {
    "create database": ("create database", "create schema"),
    "drop database": ("drop database", "drop schema"),
    "create table": ("create table",),
    "drop table": ("drop table",),
    "truncate table": ("truncate table",),
    "drop index": ("drop index", ALTER_TABLE),
    "create view": ("create view",),
    "alter view": ("create view",),
    "drop view": ("drop view",),
}


def ddl_types(sql: str, session: Session, table: Table | None = None) -> DdlTypes:
    """The types of a statement. Raises ``DDLNotUnderstood``.

    ``table`` is the table of an ALTER as it was before, where it is known: only it says whether
    DROP CONSTRAINT drops a key or a foreign key.
    """
    seen = read_ddl(sql, session)
    c = read_statement(sql, session)
    if seen.kind == "alter table":
        return _alter(c, session, table)
    if seen.kind == "rename table":
        return _rename(seen)
    if seen.kind == "create index":
        kind = "add fulltext index" if _before_index(c, "FULLTEXT") else "create index"
        return DdlTypes(kind, _all(kind, ALTER_TABLE), tables=seen.tables)
    if seen.kind == "alter database":
        return _alter_database(c, seen.schemas)
    names = _STATEMENTS.get(seen.kind)
    if names is None:
        return DdlTypes(seen.kind, _all(), discarded=f"{seen.kind} is not replicated")
    tables = _views(c, session) if seen.kind.endswith("view") else seen.tables
    return DdlTypes(names[0], _all(*names), tables=tables, schemas=seen.schemas)


def _all(*names: str) -> frozenset[str]:
    return frozenset((ALL_DDL, *names))


def _rename(seen: DdlStatement) -> DdlTypes:
    olds = tuple(dict.fromkeys(old for old, _ in seen.renames))
    return DdlTypes("rename table", _all("rename table"), tables=olds, renames=seen.renames)


def _before_index(c: Cursor, word: str) -> bool:
    while (item := c.peek()) is not None and not item.is_word("INDEX"):
        c.next()
        if item.is_word(word):
            return True
    return False


def _alter_database(c: Cursor, schemas: tuple[str, ...]) -> DdlTypes:
    words = ("CHARACTER", "CHARSET", "COLLATE")
    if any(item.is_word(*words) for item in c.items[2:]):
        kind = "modify schema charset and collate"
        return DdlTypes(kind, _all(kind), schemas=schemas)
    return DdlTypes(
        "alter database",
        _all(),
        schemas=schemas,
        discarded="of ALTER DATABASE only character set and collation are replicated",
    )


def _views(c: Cursor, session: Session) -> tuple[Name, ...]:
    while not c.next().is_word("VIEW"):
        continue
    if not c.word("IF", "NOT", "EXISTS"):
        c.word("IF", "EXISTS")
    found = [c.table(session)]
    while c.punct(","):
        found.append(c.table(session))
    return tuple(found)


def _alter(c: Cursor, session: Session, table: Table | None) -> DdlTypes:
    name = read_alter_head(c, session)
    found: list[DDLClause] = []
    plans: list[Plan] = []
    while c.peek() is not None:
        if c.punct(","):
            continue
        at, plan = c.at, Plan()
        read_action(c, plan, session)
        if c.at == at:
            raise c.error("the clause of ALTER TABLE is not understood")
        plans.append(plan)
        found += clause_of(c, at, plan, session, table)
    renames = tuple((name, p.rename_to) for p in plans if p.rename_to is not None)
    passing = [clause for clause in found if clause.passes]
    discarded = "" if passing else _why(found)
    kind = MULTI if len(found) > 1 else found[0].name if found else ALTER_TABLE
    types = {name for clause in found for name in clause.types}
    return DdlTypes(
        kind,
        _all(ALTER_TABLE, *types, *([MULTI] if len(found) > 1 else [])),
        clauses=tuple(frozenset((*clause.types, ALTER_TABLE)) for clause in found),
        tables=(name,),
        renames=renames,
        moves=tuple((name, other) for clause in found for other in clause.others),
        discarded=discarded,
        unlogged=next((clause.name for clause in found if clause.unlogged), ""),
    )


def _why(found: list[DDLClause]) -> str:
    if not found:
        return "an ALTER TABLE without a clause changes nothing"
    return f"{found[0].name} changes neither columns nor keys, and is not replicated"
