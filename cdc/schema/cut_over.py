"""The one ALTER that an online schema change meant, when its copy takes the table's place."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from cdc.base.nodes import plain
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.difference import actions_between
from cdc.schema.session import Session
from cdc.schema.statement import DdlStatement, TableName
from cdc.schema.table import Table
from cdc.schema.table_copy import Alteration, TableCopy
from cdc.schema.tokens import DDLNotUnderstood, quoted


@dataclass(frozen=True, slots=True)
class CutOver:
    """The table ``name`` is from now on what ``copy`` was: ``before`` has become ``after``.

    ``known`` is what was known of the copy, None if its name alone tells it.
    """

    name: TableName
    copy: TableName
    before: Table
    after: Table
    known: TableCopy | None

    def catalog(self, before: Catalog) -> Catalog:
        """``before`` with the table in its place, also where it had gone a statement earlier."""
        return before.with_table(replace(self.before, schema=self.name[0], name=self.name[1]))


def alter_of(cut: CutOver, before: Catalog, session: Session) -> DdlStatement | None:
    """The statement that makes ``cut.before`` what ``cut.after`` is; None if that is the same.

    It is what the copy was altered by, told of the table, if that leads to ``cut.after``; else what
    the two definitions differ in. ``session`` is that of the statement that swaps them. Raises
    DifferenceUnclear.
    """
    catalog = cut.catalog(before)
    known = None if cut.known is None else cut.known.alterations
    told = _told(cut, known, session) if known else None
    if told is not None and _leads(told, catalog, cut):
        return told
    actions = actions_between(cut.before, cut.after, session)
    return _statement(cut, ", ".join(actions), session) if actions else None


def _told(cut: CutOver, known: tuple[Alteration, ...], session: Session) -> DdlStatement | None:
    """The copy's own ALTERs as one, if all of them are read alike."""
    spoken = known[0].session
    if any(_reading(a.session) != _reading(session) for a in known):
        return None
    if any(a.session.default_schema != spoken.default_schema for a in known):
        return None
    bodies = []
    for alteration in known:
        c = (seen := read_ddl(alteration.sql, alteration.session)).cursor()
        bodies.append(c.text[c.items[seen.body].start : c.items[-1].end].strip())
    spoken = replace(session, default_schema=spoken.default_schema)
    return _statement(cut, ", ".join(bodies), spoken)


def _reading(session: Session) -> Session:
    """All of it but what says nothing of the statement's own words."""
    return replace(session, default_schema="", collation_database=None, foreign_key_checks=True)


def _statement(cut: CutOver, actions: str, session: Session) -> DdlStatement:
    schema, name = cut.name
    return read_ddl(f"ALTER TABLE {quoted(plain(schema), name)} {actions}", session)


def _leads(statement: DdlStatement, catalog: Catalog, cut: CutOver) -> bool:
    with suppress(DDLNotUnderstood):
        made = apply(catalog, statement).table(*cut.name)
        return made is not None and _stored(made) == _stored(cut.after)
    return False


def _stored(table: Table) -> list[object]:
    """What rows look like; a copy that was made from a text may read differently in the rest."""
    return [(c.name, c.data_type, c.unsigned, c.charset, c.members) for c in table.columns]
