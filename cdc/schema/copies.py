"""Copies of tables, followed through statements: what tools of online schema change leave behind.

gh-ost and pt-online-schema-change make a table like another, alter it while they fill it, and then
let it take the other's place (docs/online-ddl.md has their statements). A copy is known by what
made it, not by its name: gh-ost says so in a comment of its statements, and whoever keeps a copy up
to date by triggers has triggers that name it. Triggers alone prove nothing, since tables of a
user's history are kept so too: they, or the copy, must be called as pt-online-schema-change calls
them. Copies that nothing proves yet are followed too, as the triggers come behind the table. What
is done with copies is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from cdc.schema.catalog import Catalog
from cdc.schema.statement import DdlStatement, Verb
from cdc.schema.table import Table
from cdc.schema.table_copy import Alteration, Copies, Proof, TableCopy
from cdc.schema.tokens import DDLNotUnderstood, Kind

_Name = tuple[str, str]
_GH_OST = re.compile(r"/\*\s*gh-ost\s*\*/", re.IGNORECASE)
# Under such a name a tool's table stays the tool's, whoever gave it; any other is a user's choice.
_TOOLS_NAME = re.compile(r"_.+_(?:new|gho|ghc|ghk|del|old)", re.IGNORECASE | re.DOTALL)
# What pt-online-schema-change calls its triggers, and a copy.
_PT_TRIGGER = "pt_osc_"
_PT_COPY = re.compile(r"_+(.+)_new", re.IGNORECASE | re.DOTALL)
_HEARTBEAT = ("id", "last_update", "hint", "value")
_TRIGGERS = ("create trigger", "drop trigger")
# A tool alters its copy once or twice; of a table that lives on nobody asks.
_MOST_ALTERATIONS = 8
# Who makes thousands of tables LIKE one pattern makes no copies of it; proof comes within seconds.
_MOST_COPIES = 256


def of_tool(sql: str) -> bool:
    """Whether gh-ost says of a statement that it is its own."""
    return _GH_OST.search(sql) is not None


def has_tools_name(name: str) -> bool:
    """Whether a table is called as tools call theirs, which alone proves nothing."""
    return _TOOLS_NAME.fullmatch(name) is not None


def follow(before: Catalog, statement: DdlStatement, after: Catalog) -> Catalog:
    """``after`` with the copies that there are behind the statement; ``before`` it, all is known.

    Statements are those that a server has executed.
    """
    if statement.session.failed:
        return after
    if statement.kind in _TRIGGERS:
        return _triggers(after, statement)
    verb = statement.verb
    if verb is Verb.CREATE:
        return _created(before, statement, after)
    if verb is Verb.DROP:
        for named in statement.targets:
            after = _without(_base_gone(before, after, named.table), named.table)
        return after
    if verb in (Verb.ALTER, Verb.CREATE_INDEX, Verb.DROP_INDEX):
        after = _altered(statement, after)
    return _renamed(before, statement, after) if statement.renames else after


def copies_of(catalog: Catalog, model: _Name) -> Iterator[tuple[str, TableCopy]]:
    """Copies of a table, each by the name under which it is looked up."""
    database = catalog.database(model[0])
    if database is not None and database.copies:
        key = catalog.key(model[1])
        for name, copy in database.copies.items():
            if copy.model and catalog.key(copy.model) == key:
                yield name, copy


def found_in(
    catalog: Catalog, triggers: Iterable[tuple[str, str, str, str]] = ()
) -> dict[str, Copies]:
    """Copies among tables that were there before their statements were followed, by database.

    ``triggers`` are (database, table, trigger, its statement). gh-ost's copies are told by its
    heartbeat table beside them.
    """
    found: dict[str, dict[str, TableCopy]] = {}
    for database in catalog.databases.values():
        tables = database.tables
        for name in tables:
            if name.endswith("_ghc") and _heartbeat(catalog, database.name, name):
                model = name[1:-4]
                ours = found.setdefault(database.name, {})
                ours[name] = TableCopy(proof=Proof.GH_OST)
                if tables.get(f"_{model}_gho") is not None and tables.get(model) is not None:
                    ours[f"_{model}_gho"] = TableCopy(model, Proof.GH_OST, alterations=None)
    for schema, table, trigger, text in triggers:
        known = catalog.database(schema)
        for name in known.tables if known is not None else ():
            if _keeps(trigger, name, table) and _names(text, name):
                ours = found.setdefault(schema, {})
                copy = ours.get(name, TableCopy(table, Proof.TRIGGERS, alterations=None))
                ours[name] = replace(copy, triggers=copy.triggers | {trigger})
    return {schema: dict(ours) for schema, ours in found.items()}


def _heartbeat(catalog: Catalog, database: str, name: str) -> bool:
    with suppress(DDLNotUnderstood):
        table = catalog.table(database, name)
        return table is not None and tuple(c.name for c in table.columns) == _HEARTBEAT
    return False


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", text) is not None


def _put(catalog: Catalog, name: _Name, copy: TableCopy | None) -> Catalog:
    database = catalog.database(name[0])
    if database is None:
        return catalog
    key = catalog.key(name[1])
    if database.copies.get(key) == copy:
        return catalog
    copies = {k: v for k, v in database.copies.items() if k != key}
    if copy is not None:
        copies[key] = copy
        if len(copies) > _MOST_COPIES:
            oldest = next((k for k, v in copies.items() if v.proof is Proof.NONE), None)
            copies = {k: v for k, v in copies.items() if k != oldest}
    return catalog.with_database(replace(database, copies=copies))


def _without(catalog: Catalog, name: _Name) -> Catalog:
    return _put(catalog, name, None)


def _created(before: Catalog, statement: DdlStatement, after: Catalog) -> Catalog:
    name = statement.targets[0].table
    database = after.database(name[0])
    if database is None or database.tables.get(after.key(name[1])) is None:
        return after
    if not statement.replacing and before.has_table(*name):
        # IF NOT EXISTS, and there was one.
        return after
    for copied, copy in list(copies_of(after, name)):
        # What it was to replace has gone for good, and this is another.
        after = _put(after, (name[0], copied), replace(copy, replaced=None))
    model = _model(statement, after)
    if of_tool(statement.sql):
        return _put(after, name, TableCopy(model, Proof.GH_OST))
    return _put(after, name, TableCopy(model) if model else None)


def _model(statement: DdlStatement, after: Catalog) -> str:
    """The name of the table that a new one is like: as it says, or by name and columns."""
    name = statement.targets[0].table
    if statement.like:
        model = statement.others[0].table
        return model[1] if after.key(model[0]) == after.key(name[0]) else ""
    own = _columns(after, name)

    def alike(part: str) -> bool:
        return after.has_table(name[0], part) and _columns(after, (name[0], part)) == own

    # What a run has left behind may have these columns too, and a longer part of the name.
    usual = _PT_COPY.fullmatch(name[1])
    if usual is not None and alike(usual[1]):
        return usual[1]
    # The longest part of its name, in words, that is a table with the same columns.
    words = name[1].split("_")
    for length in range(len(words) - 1, 0, -1):
        for start in range(len(words) - length + 1):
            part = "_".join(words[start : start + length])
            if part and alike(part):
                return part
    return ""


def _columns(catalog: Catalog, name: _Name) -> tuple[str, ...]:
    with suppress(DDLNotUnderstood):
        table = catalog.table(*name)
        return () if table is None else tuple(c.name.lower() for c in table.columns)
    return ()


def _altered(statement: DdlStatement, after: Catalog) -> Catalog:
    name = statement.targets[0].table
    copy = after.copy_of(*name)
    # What a rename leaves behind is looked at under its old name.
    if copy is None or copy.alterations is None or copy.retired or not copy.model:
        return after
    if statement.verb is Verb.ALTER:
        if all(a.words[:1] == ("AUTO_INCREMENT",) for a in statement.actions):
            # gh-ost takes the counter over, which says nothing of the schema.
            return after
        if statement.renames and len(statement.actions) == 1:
            return after
        known = (*copy.alterations, Alteration(statement.sql, statement.session))
        if len(known) <= _MOST_ALTERATIONS and not statement.renames:
            return _put(after, name, replace(copy, alterations=known))
    return _put(after, name, replace(copy, alterations=None))


@dataclass(frozen=True, slots=True)
class _Swap:
    """The steps of one statement that renames."""

    steps: tuple[tuple[_Name, _Name], ...]
    by_tool: bool


def _renamed(before: Catalog, statement: DdlStatement, after: Catalog) -> Catalog:
    swap = _Swap(statement.renames, of_tool(statement.sql))
    for old, new in swap.steps:
        copy = after.copy_of(*old)
        after = _without(after, old)
        if copy is None:
            after = _base_gone(before, after, old, new)
            after = _put(after, new, _retired(before, after, swap, old, new))
            continue
        if old[0] != new[0] or after.key(copy.model) == after.key(new[1]):
            # It has taken the place that it was made for, or is none of this database's.
            after = _without(after, new)
        elif not has_tools_name(new[1]):
            after = _without(after, new)
        else:
            after = _put(after, new, copy)
    return after


def _retired(
    before: Catalog, after: Catalog, swap: _Swap, old: _Name, new: _Name
) -> TableCopy | None:
    """What a table becomes that has given its name to its copy, or is about to."""
    if old[0] != new[0]:
        return None
    for moved, to in swap.steps:
        copy = before.copy_of(*moved)
        if to == old and copy is not None and after.key(copy.model) == after.key(old[1]):
            if copy.proof in (Proof.GH_OST, Proof.TRIGGERS) or (copy.retired and swap.by_tool):
                return TableCopy(old[1], Proof.SWAPPED, retired=True, alterations=None)
            return None
    # The first half of gh-ost's swap in two steps.
    waiting = any(c.proof is Proof.GH_OST for _, c in copies_of(after, old))
    if swap.by_tool and waiting:
        return TableCopy(old[1], Proof.SWAPPED, retired=True, alterations=None)
    return None


def _base_gone(before: Catalog, after: Catalog, name: _Name, to: _Name | None = None) -> Catalog:
    """Copies of a table that goes away keep what it was, until they come in its place."""
    table: Table | None = None
    for copied, copy in list(copies_of(after, name)):
        if table is None:
            with suppress(DDLNotUnderstood):
                table = before.table(*name)
        if to is None or to[1] != copied:
            after = _put(after, (name[0], copied), replace(copy, replaced=table))
    return after


def _triggers(after: Catalog, statement: DdlStatement) -> Catalog:
    """CREATE TRIGGER that writes into a copy of its table proves the copy; DROP takes that back."""
    if not any(database.copies for database in after.databases.values()):
        return after
    with suppress(DDLNotUnderstood):
        if statement.kind == "drop trigger":
            return _trigger_gone(after, statement)
        c = statement.cursor(0)
        while not c.word("TRIGGER"):
            c.next()
        c.word("IF", "NOT", "EXISTS")
        trigger = c.table(statement.session)[1]
        while not c.word("ON"):
            c.next()
        base = c.table(statement.session)
        named = {i.text for i in c.items[c.at :] if i.kind in (Kind.NAME, Kind.WORD)}
        for name, copy in list(_kept_by(after, trigger, base)):
            ours = not copy.retired and _keeps(trigger, name, copy.model)
            if ours and any(after.key(text) == name for text in named):
                proof = copy.proof if copy.proof is Proof.GH_OST else Proof.TRIGGERS
                proven = replace(copy, proof=proof, triggers=copy.triggers | {trigger})
                after = _put(after, (base[0], name), proven)
    return after


def _kept_by(catalog: Catalog, trigger: str, base: _Name) -> Iterator[tuple[str, TableCopy]]:
    """Copies that a trigger of a table may keep up to date.

    Beside its own those of a table with the same columns, if the trigger is called as a tool's: the
    name was all that told which of both a copy is made of.
    """
    yield from copies_of(catalog, base)
    database = catalog.database(base[0])
    if database is None or not trigger.lower().startswith(_PT_TRIGGER):
        return
    key, own = catalog.key(base[1]), _columns(catalog, base)
    for name, copy in database.copies.items():
        other = copy.model and catalog.key(copy.model) != key
        if other and name != key and _columns(catalog, (base[0], copy.model)) == own:
            yield name, replace(copy, model=base[1])


def _keeps(trigger: str, copy: str, model: str) -> bool:
    """Whether a trigger that writes into ``copy`` is a tool's, by what it or the copy is called."""
    if copy.lower() == model.lower():
        return False
    called = _PT_COPY.fullmatch(copy)
    usual = called is not None and called[1].lower() == model.lower()
    return usual or trigger.lower().startswith(_PT_TRIGGER)


def _trigger_gone(after: Catalog, statement: DdlStatement) -> Catalog:
    c = statement.cursor(0)
    while not c.word("TRIGGER"):
        c.next()
    c.word("IF", "EXISTS")
    schema, trigger = c.table(statement.session)
    database = after.database(schema)
    known: Mapping[str, TableCopy] = {} if database is None else database.copies
    for name, copy in list(known.items()):
        if trigger in copy.triggers:
            left = copy.triggers - {trigger}
            proof = copy.proof if left or copy.proof is not Proof.TRIGGERS else Proof.LEFT
            after = _put(after, (schema, name), replace(copy, triggers=left, proof=proof))
    return after
