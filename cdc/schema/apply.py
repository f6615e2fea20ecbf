"""``apply(catalog, statement) -> catalog``: DDL as a function.

The statement is one that a server has executed: it is not judged, only followed. What changes
neither columns nor keys gives the same catalog; what is not understood raises
``DDLNotUnderstood``. What it is about, and under which conditions, the statement says; only what
stands behind the name is read here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cdc.base.redaction import user_data
from cdc.schema.alter import Plan, read_actions
from cdc.schema.altered import alter
from cdc.schema.catalog import Catalog, Database
from cdc.schema.charsets import default_collation
from cdc.schema.create import read_table
from cdc.schema.draft import Options
from cdc.schema.elements import key_options, read_key
from cdc.schema.foreign import moved
from cdc.schema.options import read_charset_or_collation
from cdc.schema.resolve import charset_pair, said_pair
from cdc.schema.sequences import is_sequence, of_sequence
from cdc.schema.session import Session
from cdc.schema.statement import DdlStatement, NameRole, Verb
from cdc.schema.system import is_system
from cdc.schema.table import Table
from cdc.schema.tokens import NOT_UNDERSTOOD_HINT, DDLNotUnderstood

_Name = tuple[str, str]


def apply(catalog: Catalog, statement: DdlStatement) -> Catalog:
    """The catalog behind the statement. Raises ``DDLNotUnderstood`` with the text."""
    try:
        return _apply(catalog, statement)
    except DDLNotUnderstood as e:
        raise DDLNotUnderstood(
            f"{e.message}; statement: {user_data(statement.sql[:500])}",
            object=e.object,
            hint=e.hint,
        ) from e
    except (LookupError, ValueError) as e:
        # What we hold does not fit the statement, in a way that nothing has foreseen.
        raise DDLNotUnderstood(
            f"the statement does not fit the tables that we know ({user_data(repr(e))});"
            f" statement: {user_data(statement.sql[:500])}",
            hint=NOT_UNDERSTOOD_HINT,
        ) from e


def _apply(catalog: Catalog, statement: DdlStatement) -> Catalog:
    rule = _RULES.get(statement.kind)
    if rule is None:
        return catalog
    if statement.session.failed and not statement.kind.startswith("drop"):
        return _failed(catalog, statement)
    if statement.obstacle:
        raise DDLNotUnderstood(statement.obstacle, hint=NOT_UNDERSTOOD_HINT)
    return rule(catalog, statement)


def _failed(catalog: Catalog, statement: DdlStatement) -> Catalog:
    """MariaDB logs a CREATE OR REPLACE that failed when the old table was already gone."""
    if statement.verb is Verb.CREATE and statement.replacing:
        return catalog.without_table(*statement.targets[0].table)
    return catalog


def _defaults(catalog: Catalog, schema: str, session: Session) -> tuple[str, str]:
    database = catalog.database(schema)
    if database is None:
        raise DDLNotUnderstood(f"there is no database {schema!r}")
    return database.charset, database.collation


def _table(catalog: Catalog, name: _Name) -> Table:
    table = catalog.table(*name)
    if table is None:
        raise DDLNotUnderstood(
            f"there is no table {name[0]}.{name[1]}",
            object=f"{name[0]}.{name[1]}",
            hint="a schema change was missed; take a new snapshot",
        )
    return table


def _create_table(catalog: Catalog, statement: DdlStatement) -> Catalog:
    name = statement.targets[0].table
    there = catalog.table(*name) is not None or catalog.has_other(*name)
    if (statement.conditional and there) or is_system(name[0]):
        return catalog
    catalog = catalog.with_other(*name, there=False)
    if statement.like:
        return _copied(catalog, name, statement.others[0].table)
    c = statement.cursor(statement.body)
    if not c.punct("("):
        raise c.error("a CREATE TABLE without a column list is not understood")
    session = statement.session
    return _with(catalog, read_table(c, *name, _defaults(catalog, name[0], session), session))


def _copied(catalog: Catalog, name: _Name, model: _Name) -> Catalog:
    if catalog.table(*model) is None and catalog.has_other(*model):
        # MariaDB: a sequence like another.
        return catalog.without_table(*name).with_other(*name)
    source = _table(catalog, model)
    return catalog.with_table(replace(source, schema=name[0], name=name[1], foreign_keys=()))


def _with(catalog: Catalog, table: Table) -> Catalog:
    """The catalog with a table that a statement has made, or changed."""
    if is_sequence(dict(table.options), otherwise=False):
        return catalog.without_table(table.schema, table.name).with_other(table.schema, table.name)
    return catalog.with_table(table)


def _change_index(catalog: Catalog, statement: DdlStatement) -> Catalog:
    """CREATE and DROP INDEX: an ALTER TABLE of their table."""
    name, session = statement.targets[0].table, statement.session
    if is_system(name[0]):
        return catalog
    table, plan = _table(catalog, name), _index_plan(statement)
    return catalog.with_table(alter(table, plan, _defaults(catalog, name[0], session), session))


def _index_plan(statement: DdlStatement) -> Plan:
    dropped = {statement.index.lower()}
    if statement.verb is Verb.DROP_INDEX:
        return Plan(drop_keys=dropped)
    c = statement.cursor(statement.body)
    key = read_key(c, statement.session)
    key.kind = statement.index_kind or "KEY"
    key.name, key.conditional = statement.index, statement.conditional
    c.wait()
    key_options(c, key, statement.session)
    while c.word("ALGORITHM") or c.word("LOCK"):
        c.punct("=")
        c.next()
    if c.peek() is not None:
        raise c.error("the end of CREATE INDEX is not understood")
    return Plan(keys=[key], drop_keys=dropped if statement.replacing else set())


def _alter_table(catalog: Catalog, statement: DdlStatement) -> Catalog:
    name, session = statement.targets[0].table, statement.session
    table = catalog.table(*name)
    if is_system(name[0]) or (table is None and statement.conditional):
        return catalog
    plan = read_actions(statement.cursor(statement.body), session)
    if table is None and catalog.has_other(*name):
        return _alter_other(catalog, statement, plan)
    table = _table(catalog, name)
    current = catalog.database(session.default_schema)
    defaults = None if current is None else (current.charset, current.collation)
    changed = alter(table, plan, _defaults(catalog, name[0], session), session, defaults)
    for other in statement.others:
        if other.role is NameRole.TO_PARTITION:
            catalog = catalog.without_table(*other.table)
        if other.role is NameRole.FROM_PARTITION:
            alone = replace(changed, partitioning=None, foreign_keys=())
            catalog = catalog.with_table(replace(alone, schema=other.schema, name=other.name))
    for old, new in statement.renames:
        catalog = catalog.without_table(*old)
        changed = _renamed(changed, new)
    return _with(catalog, changed)


def _renamed(table: Table, name: _Name) -> Table:
    foreign = moved(table.foreign_keys, table.name, name[1])
    return replace(table, schema=name[0], name=name[1], foreign_keys=foreign)


def _alter_other(catalog: Catalog, statement: DdlStatement, plan: Plan) -> Catalog:
    """ALTER TABLE of a sequence."""
    name, session = statement.targets[0].table, statement.session
    to = next((new for _, new in statement.renames), name)
    catalog = catalog.with_other(*name, there=False)
    if is_sequence(plan.options.others, otherwise=True):
        return catalog.with_other(*to)
    table = of_sequence(*to, _defaults(catalog, to[0], session), session)
    return catalog.with_table(replace(table, engine=plan.options.engine or table.engine))


def _drop_table(catalog: Catalog, statement: DdlStatement) -> Catalog:
    for named in statement.targets:
        # MariaDB drops a sequence as a table too.
        catalog = catalog.without_table(*named.table).with_other(*named.table, there=False)
    return catalog


def _create_other(catalog: Catalog, statement: DdlStatement) -> Catalog:
    for name in (named.table for named in statement.targets):
        if is_system(name[0]):
            continue
        # CREATE OR REPLACE SEQUENCE replaces a table too.
        catalog = catalog.without_table(*name) if statement.replacing else catalog
        catalog = catalog.with_other(*name)
    return catalog


def _drop_other(catalog: Catalog, statement: DdlStatement) -> Catalog:
    for named in statement.targets:
        catalog = catalog.with_other(*named.table, there=False)
    return catalog


def _rename_tables(catalog: Catalog, statement: DdlStatement) -> Catalog:
    for old, new in statement.renames:
        table = catalog.table(*old)
        # The server has renamed it, so what is no table of ours is a view or a sequence.
        if table is None and catalog.has_other(*old):
            catalog = catalog.with_other(*old, there=False).with_other(*new)
        if table is not None:
            catalog = catalog.without_table(*old)
        if is_system(old[0]) and not is_system(new[0]):
            raise DDLNotUnderstood(f"the table {new[0]}.{new[1]} comes from a system schema")
        if table is not None and not is_system(new[0]):
            catalog = catalog.with_table(_renamed(table, new))
    return catalog


def _database_options(
    statement: DdlStatement, present: tuple[str, str], server: tuple[str, str]
) -> tuple[str, str]:
    c, options = statement.cursor(statement.body), Options()
    while c.peek() is not None:
        if read_charset_or_collation(c, options):
            continue
        c.word("DEFAULT")
        if c.word("COMMENT") or c.word("ENCRYPTION") or c.word("READ", "ONLY"):
            c.punct("=")
            c.next()
            continue
        if c.word("UPGRADE", "DATA", "DIRECTORY", "NAME"):
            continue
        raise c.error("the option of the database is not understood")
    return said_pair(options, present, server, statement.session)


def _server(session: Session) -> tuple[str, str]:
    collation = session.collation_server
    if collation is None:
        return "utf8mb4", default_collation("utf8mb4", session)
    return charset_pair(None, collation, ("utf8mb4", collation), session)


def _create_database(catalog: Catalog, statement: DdlStatement) -> Catalog:
    name, session = statement.schema, statement.session
    if statement.conditional and catalog.database(name) is not None:
        return catalog
    server = _server(session)
    charset, collation = _database_options(statement, server, server)
    if session.lower_case_table_names == 1:
        name = name.lower()
    return catalog.with_database(Database(name, charset, collation))


def _alter_database(catalog: Catalog, statement: DdlStatement) -> Catalog:
    name = statement.schema
    if is_system(name):
        return catalog
    database = catalog.database(name)
    if database is None:
        raise DDLNotUnderstood(f"there is no database {name!r}")
    present = (database.charset, database.collation)
    charset, collation = _database_options(statement, present, _server(statement.session))
    return catalog.with_database(replace(database, charset=charset, collation=collation))


def _drop_database(catalog: Catalog, statement: DdlStatement) -> Catalog:
    return catalog.without_database(statement.schema)


# What is not here changes neither columns nor keys.
_RULES: dict[str, Callable[[Catalog, DdlStatement], Catalog]] = {
    "create database": _create_database,
    "alter database": _alter_database,
    "drop database": _drop_database,
    "create table": _create_table,
    "alter table": _alter_table,
    "drop table": _drop_table,
    "rename table": _rename_tables,
    "create index": _change_index,
    "drop index": _change_index,
    "create view": _create_other,
    "drop view": _drop_other,
    "create sequence": _create_other,
    "drop sequence": _drop_other,
}
