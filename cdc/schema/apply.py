"""``apply(catalog, statement, session) -> catalog``: DDL as a function.

The statement is one that a server has executed: it is not judged, only followed. What changes
neither columns nor keys gives the same catalog; what is not understood raises
``DDLNotUnderstood``.
"""

from __future__ import annotations

from dataclasses import replace

from cdc.schema.alter import Plan, read_actions
from cdc.schema.altered import alter
from cdc.schema.catalog import Catalog, Database
from cdc.schema.charsets import default_collation
from cdc.schema.create import read_table
from cdc.schema.ddl import read_ddl
from cdc.schema.draft import Options
from cdc.schema.elements import key_options, read_key
from cdc.schema.foreign import moved
from cdc.schema.options import read_charset_or_collation
from cdc.schema.resolve import charset_pair, said_pair
from cdc.schema.sequences import is_sequence, of_sequence
from cdc.schema.session import Session
from cdc.schema.system import is_system
from cdc.schema.table import Table
from cdc.schema.tokens import Cursor, DDLNotUnderstood, read_statement

_Name = tuple[str, str]


def apply(catalog: Catalog, statement: str, session: Session) -> Catalog:
    """The catalog behind the statement. Raises ``DDLNotUnderstood`` with the text."""
    try:
        return _apply(catalog, read_statement(statement, session), statement, session)
    except DDLNotUnderstood as e:
        raise DDLNotUnderstood(
            f"{e.message}; statement: {statement[:500]}", object=e.object, hint=e.hint
        ) from e
    except (LookupError, ValueError) as e:
        # What we hold does not fit the statement, in a way that nothing has foreseen.
        raise DDLNotUnderstood(
            f"the statement does not fit the tables that we know ({e!r}); statement: "
            f"{statement[:500]}",
            hint="report the statement with its server version",
        ) from e


def _apply(catalog: Catalog, c: Cursor, statement: str, session: Session) -> Catalog:
    if session.failed and c.items and not c.items[0].is_word("DROP"):
        return _failed(catalog, c, session)
    if c.word("CREATE"):
        return _create(catalog, c, statement, session)
    if c.word("ALTER"):
        return _alter(catalog, c, statement, session)
    if c.word("DROP"):
        return _drop(catalog, c, statement, session)
    if c.word("RENAME"):
        if c.word("TABLE") or c.word("TABLES"):
            return _rename(catalog, c, session)
        return _known(catalog, statement, session)
    return _known(catalog, statement, session)


def _failed(catalog: Catalog, c: Cursor, session: Session) -> Catalog:
    """MariaDB logs a CREATE OR REPLACE that failed when the old table was already gone."""
    if c.word("CREATE", "OR", "REPLACE", "TABLE"):
        c.word("IF", "NOT", "EXISTS")
        return catalog.without_table(*c.table(session))
    return catalog


def _known(catalog: Catalog, statement: str, session: Session) -> Catalog:
    """The same catalog, if the statement is known to change no column and no key."""
    seen = read_ddl(statement, session)
    if seen.kind.startswith(("create", "alter", "drop", "rename")) and (
        seen.tables or seen.schemas
    ):
        raise DDLNotUnderstood("the statement is not understood")
    return catalog


def _create(catalog: Catalog, c: Cursor, statement: str, session: Session) -> Catalog:
    replacing = c.word("OR", "REPLACE")
    if c.word("DATABASE") or c.word("SCHEMA"):
        return _create_database(catalog, c, session, replacing=replacing)
    if c.word("TEMPORARY"):
        return _known(catalog, statement, session)
    if c.word("TABLE"):
        return _create_table(catalog, c, session, replacing=replacing)
    if _is_index(c):
        return _create_index(catalog, c, session, replacing=replacing)
    catalog = _known(catalog, statement, session)
    other = _other(statement, session)
    if other is None or is_system(other[0]):
        return catalog
    # CREATE OR REPLACE SEQUENCE replaces a table too.
    return (catalog.without_table(*other) if replacing else catalog).with_other(*other)


def _other(statement: str, session: Session) -> _Name | None:
    """The name of the view or sequence that CREATE makes; None if it makes something else."""
    read = read_ddl(statement, session)
    named = read.kind.endswith((" view", " sequence")) and read.targets
    return named[0].table if named else None


def _is_index(c: Cursor) -> bool:
    for ahead in range(4):
        item = c.peek(ahead)
        if item is None:
            return False
        if item.is_word("INDEX"):
            return True
        if not item.is_word("ONLINE", "OFFLINE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"):
            return False
    return False


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


def _create_table(catalog: Catalog, c: Cursor, session: Session, *, replacing: bool) -> Catalog:
    conditional = c.word("IF", "NOT", "EXISTS")
    name = c.table(session)
    if conditional and (catalog.table(*name) is not None or catalog.has_other(*name)):
        return catalog
    if is_system(name[0]):
        return catalog
    catalog = catalog.with_other(*name, there=False)
    like = c.word("LIKE")
    if not like and c.punct("("):
        if not c.word("LIKE"):
            table = read_table(c, *name, _defaults(catalog, name[0], session), session)
            return _with(catalog, table)
        like = True
    if not like:
        raise c.error("a CREATE TABLE without a column list is not understood")
    model = c.table(session)
    if catalog.table(*model) is None and catalog.has_other(*model):
        # MariaDB: a sequence like another.
        return catalog.without_table(*name).with_other(*name)
    source = _table(catalog, model)
    copy = replace(source, schema=name[0], name=name[1], foreign_keys=())
    return catalog.with_table(copy)


def _with(catalog: Catalog, table: Table) -> Catalog:
    """The catalog with a table that a statement has made, or changed."""
    if is_sequence(dict(table.options), otherwise=False):
        return catalog.without_table(table.schema, table.name).with_other(table.schema, table.name)
    return catalog.with_table(table)


def _create_index(catalog: Catalog, c: Cursor, session: Session, *, replacing: bool) -> Catalog:
    if not c.word("ONLINE"):
        c.word("OFFLINE")
    kind = ""
    while not c.word("INDEX"):
        kind = c.next().text.upper()
    conditional = c.word("IF", "NOT", "EXISTS")
    index_name = c.name()
    while not c.word("ON"):
        c.next()
    name = c.table(session)
    if is_system(name[0]):
        return catalog
    table = _table(catalog, name)
    c.wait()
    key = read_key(c, session)
    key.kind, key.name = kind or "KEY", index_name
    key_options(c, key, session)
    plan = Plan(keys=[key])
    key.conditional = conditional
    if replacing:
        plan.drop_keys.add(index_name.lower())
    while c.word("ALGORITHM") or c.word("LOCK"):
        c.punct("=")
        c.next()
    c.wait()
    if c.peek() is not None:
        raise c.error("the end of CREATE INDEX is not understood")
    return catalog.with_table(alter(table, plan, _defaults(catalog, name[0], session), session))


def _alter(catalog: Catalog, c: Cursor, statement: str, session: Session) -> Catalog:
    if c.word("DATABASE") or c.word("SCHEMA"):
        return _alter_database(catalog, c, session)
    while c.word("ONLINE") or c.word("OFFLINE") or c.word("IGNORE"):
        continue
    if not c.word("TABLE"):
        return _known(catalog, statement, session)
    conditional = c.word("IF", "EXISTS")
    name = c.table(session)
    c.wait()
    table = catalog.table(*name)
    if is_system(name[0]) or (table is None and conditional):
        return catalog
    if not read_ddl(statement, session).tables:
        return catalog
    plan = read_actions(c, session)
    if table is None and catalog.has_other(*name):
        return _alter_other(catalog, name, plan, session)
    table = _table(catalog, name)
    current = catalog.database(session.default_schema)
    defaults = None if current is None else (current.charset, current.collation)
    changed = alter(table, plan, _defaults(catalog, name[0], session), session, defaults)
    if plan.partition_from is not None:
        catalog = catalog.without_table(*plan.partition_from)
    if plan.partition_to is not None:
        schema, other = plan.partition_to
        made = replace(changed, schema=schema, name=other, partitioning=None, foreign_keys=())
        catalog = catalog.with_table(made)
    if plan.rename_to is not None:
        catalog = catalog.without_table(*name)
        changed = _renamed(changed, plan.rename_to)
    return _with(catalog, changed)


def _renamed(table: Table, name: _Name) -> Table:
    foreign = moved(table.foreign_keys, table.name, name[1])
    return replace(table, schema=name[0], name=name[1], foreign_keys=foreign)


def _alter_other(catalog: Catalog, name: _Name, plan: Plan, session: Session) -> Catalog:
    """ALTER TABLE of a sequence."""
    to = plan.rename_to or name
    catalog = catalog.with_other(*name, there=False)
    if is_sequence(plan.options.others, otherwise=True):
        return catalog.with_other(*to)
    table = of_sequence(*to, _defaults(catalog, to[0], session), session)
    return catalog.with_table(replace(table, engine=plan.options.engine or table.engine))


def _drop(catalog: Catalog, c: Cursor, statement: str, session: Session) -> Catalog:
    if c.word("DATABASE") or c.word("SCHEMA"):
        c.word("IF", "EXISTS")
        return catalog.without_database(c.name())
    if c.word("TEMPORARY"):
        return catalog
    if c.word("TABLE") or c.word("TABLES"):
        c.word("IF", "EXISTS")
        while True:
            catalog = _without(catalog, c.table(session))
            if not c.punct(","):
                return catalog
    if c.word("VIEW") or c.word("SEQUENCE"):
        c.word("IF", "EXISTS")
        while True:
            catalog = catalog.with_other(*c.table(session), there=False)
            if not c.punct(","):
                return catalog
    at = c.at
    if not c.word("ONLINE"):
        c.word("OFFLINE")
    if c.word("INDEX"):
        c.word("IF", "EXISTS")
        index_name = c.name()
        if not c.word("ON"):
            raise c.error("ON was expected")
        name = c.table(session)
        if is_system(name[0]):
            return catalog
        table = _table(catalog, name)
        plan = Plan(drop_keys={index_name.lower()})
        return catalog.with_table(alter(table, plan, _defaults(catalog, name[0], session), session))
    c.at = at
    return _known(catalog, statement, session)


def _without(catalog: Catalog, name: _Name) -> Catalog:
    # MariaDB drops a sequence as a table too.
    return catalog.without_table(*name).with_other(*name, there=False)


def _rename(catalog: Catalog, c: Cursor, session: Session) -> Catalog:
    c.word("IF", "EXISTS")
    while True:
        old = c.table(session)
        c.wait()
        if not c.word("TO"):
            raise c.error("TO was expected")
        new = c.table(session)
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
        if not c.punct(","):
            return catalog


def _database_options(
    c: Cursor, present: tuple[str, str], server: tuple[str, str], session: Session
) -> tuple[str, str]:
    options = Options()
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
    return said_pair(options, present, server, session)


def _server(session: Session) -> tuple[str, str]:
    collation = session.collation_server
    if collation is None:
        return "utf8mb4", default_collation("utf8mb4", session)
    return charset_pair(None, collation, ("utf8mb4", collation), session)


def _create_database(catalog: Catalog, c: Cursor, session: Session, *, replacing: bool) -> Catalog:
    conditional = c.word("IF", "NOT", "EXISTS")
    name = c.name()
    if conditional and catalog.database(name) is not None:
        return catalog
    server = _server(session)
    charset, collation = _database_options(c, server, server, session)
    if session.lower_case_table_names == 1:
        name = name.lower()
    return catalog.with_database(Database(name, charset, collation))


def _alter_database(catalog: Catalog, c: Cursor, session: Session) -> Catalog:
    name = c.name() if c.is_database("ALTER") else session.default_schema
    if is_system(name):
        return catalog
    database = catalog.database(name)
    if database is None:
        raise DDLNotUnderstood(f"there is no database {name!r}")
    present = (database.charset, database.collation)
    charset, collation = _database_options(c, present, _server(session), session)
    return catalog.with_database(replace(database, charset=charset, collation=collation))
