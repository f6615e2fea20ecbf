"""Which of TiCDC's event types a statement has, and which tables it is about.

A statement has every name under which ``ignore-event`` can mean it: a multi-clause ALTER has the
types of all its clauses and ``multi schema change``; names of v6.5 keep their meaning, so every
clause of ALTER TABLE, CREATE INDEX and DROP INDEX is ``alter table`` too.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.schema.statement import DdlStatement
from cdc.schema.table import Table
from filter.clauses import DDLClause, clauses_of
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


# Statements by their kind: their type for people, and its other names.
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


def ddl_types(statement: DdlStatement, table: Table | None = None) -> DdlTypes:
    """The types of a statement. Raises ``DDLNotUnderstood``.

    ``table`` is the table of an ALTER as it was before, where it is known: only it says whether
    DROP CONSTRAINT drops a key or a foreign key.
    """
    kind = statement.kind
    if kind == "alter table":
        return _alter(statement, table)
    if kind == "rename table":
        return _rename(statement)
    if kind == "create index":
        kind = "add fulltext index" if statement.index_kind == "FULLTEXT" else kind
        return DdlTypes(kind, _all(kind, ALTER_TABLE), tables=statement.tables)
    if kind == "alter database":
        return _alter_database(statement)
    names = _STATEMENTS.get(kind)
    if names is None:
        return DdlTypes(kind, _all(), discarded=f"{kind} is not replicated")
    named = tuple(dict.fromkeys(name.table for name in statement.targets))
    return DdlTypes(names[0], _all(*names), tables=named, schemas=statement.schemas)


def _all(*names: str) -> frozenset[str]:
    return frozenset((ALL_DDL, *names))


def _rename(statement: DdlStatement) -> DdlTypes:
    steps = statement.renames
    olds = tuple(dict.fromkeys(old for old, _ in steps))
    return DdlTypes("rename table", _all("rename table"), tables=olds, renames=steps)


def _alter_database(statement: DdlStatement) -> DdlTypes:
    words = ("CHARACTER", "CHARSET", "COLLATE")
    c = statement.cursor(statement.body)
    if any(item.is_word(*words) for item in c.items[c.at :]):
        kind = "modify schema charset and collate"
        return DdlTypes(kind, _all(kind), schemas=statement.schemas)
    return DdlTypes(
        "alter database",
        _all(),
        schemas=statement.schemas,
        discarded="of ALTER DATABASE only character set and collation are replicated",
    )


def _alter(statement: DdlStatement, table: Table | None) -> DdlTypes:
    clauses = [clause for action in statement.actions for clause in clauses_of(action, table)]
    passing = [clause for clause in clauses if clause.passes]
    discarded = "" if passing else _why(clauses)
    kind = MULTI if len(clauses) > 1 else clauses[0].name if clauses else ALTER_TABLE
    types = {name for clause in clauses for name in clause.types}
    return DdlTypes(
        kind,
        _all(ALTER_TABLE, *types, *([MULTI] if len(clauses) > 1 else [])),
        clauses=tuple(frozenset((*clause.types, ALTER_TABLE)) for clause in clauses),
        tables=(statement.targets[0].table,),
        renames=statement.renames,
        moves=statement.moves,
        discarded=discarded,
        unlogged=next((clause.name for clause in clauses if clause.unlogged), ""),
    )


def _why(clauses: list[DDLClause]) -> str:
    if not clauses:
        return "an ALTER TABLE without a clause changes nothing"
    return f"{clauses[0].name} changes neither columns nor keys, and is not replicated"
