"""Plans of tables for SQL text: which statements their rows become, laid out for the kernel."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from cdc.binlog.table_map import TableMap
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import sql_layout as S  # noqa: N812
from cdc.rows import plan
from cdc.rows.matrix import NO_CONSTANTS, Bytes, Constants, Matrix, MatrixRows, no_rows
from cdc.rows.plan import PlanBuilder, Planned, PlanSet, planned
from cdc.rows.route import Route
from cdc.rows.storage import Storage
from cdc.schema.table import Column, Generated, Table
from cdc.schema.tokens import quoted
from sink.dispatch.extracted import Given
from sink.mysql.connection import Target
from sink.mysql.errors import TargetColumnMissing, TargetIncompatible
from sink.mysql.sql_facts import Facts
from sink.mysql.sql_forms import LiteralForm, compared, literal, same_values, value_form
from sink.mysql.sql_words import Words, given_condition, words
from sink.mysql.target import TargetTable

SQL_MODE: Final = (
    "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
)
"""The session's sql_mode: what a column cannot hold is an error, never another value.

Dates that no calendar has pass, as the upstream holds them. The session's time zone is +00:00.
"""

# A longer list is not looked up by index everywhere: MariaDB reads the whole table.
_KEYS = 500
_COMPOSITE_KEYS = 200
_NO_LIMIT = 1 << 40


@dataclass(frozen=True, slots=True)
class SqlEntry:
    """A table of the upstream, its TABLE_MAP, and the target's table with its facts.

    Without a target's table its rows are located but not written: they go as row images. ``given``
    are columns of the target that all of its rows have one value of.
    """

    table: Table
    stored: TableMap
    target: TargetTable | None
    facts: Facts = field(default_factory=Facts)
    route: Route = field(default_factory=Route)
    given: Given = ()


@dataclass(frozen=True)
class SqlPlan:
    """The tables of a job as ``sql_statement.write`` takes them. Picklable.

    ``plans`` locates their rows; ``forms`` and ``items`` are the matrices of ``sql_layout``,
    ``constants`` uint8[:], ``numbers`` int64[:].
    """

    plans: PlanSet
    forms: Matrix
    items: Matrix
    constants: Bytes
    numbers: npt.NDArray[np.int64]


NO_TABLES: Final = SqlPlan(
    plan.NO_TABLES, no_rows(S.F_SIZE), no_rows(S.I_SIZE), NO_CONSTANTS, np.zeros(1, np.int64)
)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A column that is written: its ordinal upstream, how it is stored, and the target's."""

    ordinal: int
    source: Column
    stored: Storage
    target: Column


def sql_plan(
    entries: Sequence[SqlEntry],
    target: Target,
    *,
    safe_mode: bool = False,
    before: SqlPlan = NO_TABLES,
) -> SqlPlan:
    """Plans of tables, behind those of ``before``; their order is the plan index of runs.

    With ``safe_mode`` statements can be repeated: what is there is replaced, what is gone is no
    matter. Raises ``SchemaMismatch``, ``ColumnTypeNotSupported``, ``TargetColumnMissing`` or
    ``TargetIncompatible``.
    """
    layout = _Layout(before)
    for entry in entries:
        layout.add(entry, target, safe_mode)
    return layout.build()


def without_sql(plans: PlanSet) -> SqlPlan:
    """The plan of tables none of which goes as SQL text, to go on from."""
    forms = np.zeros((len(plans.entries) * S.S_COUNT, S.F_SIZE), np.int64)
    return replace(NO_TABLES, plans=plans, forms=forms)


class _Layout:
    def __init__(self, before: SqlPlan) -> None:
        self._builder = PlanBuilder(before.plans)
        self._forms = MatrixRows(before.forms)
        self._items = MatrixRows(before.items)
        self._numbers = MatrixRows(before.numbers.reshape(-1, 1))
        self._constants = Constants(before.constants)

    def build(self) -> SqlPlan:
        return SqlPlan(
            plans=self._builder.build("UTC"),
            forms=self._forms.build(),
            items=self._items.build(),
            constants=self._constants.build(),
            numbers=self._numbers.build().reshape(-1),
        )

    def add(self, entry: SqlEntry, target: Target, safe_mode: bool) -> None:
        laid = planned(entry.table, entry.stored, entry.route)
        row, _ = self._builder.add(laid)
        if entry.target is None:
            self._forms.add([0] * S.F_SIZE for _ in range(S.S_COUNT))
            return
        there = entry.target
        given = _given(entry.given, entry.table, there)
        pairs = _pairs(laid, there, {column.lower() for column, _ in given})
        keys = _keys(entry.table, there, pairs)
        rest = [pair for pair in pairs if pair not in keys]
        upserts = _upserts(there, keys, [column for column, _ in given])
        way = _way(entry.facts, pairs, keys, upserts, safe_mode)
        said = words(
            there.table,
            [pair.target.name for pair in pairs],
            [pair.target.name for pair in rest],
            [pair.target.name for pair in keys],
            target,
            replace=way == S.WAY_REPLACE and not upserts,
            upsert=safe_mode and upserts,
            referred_to=entry.facts.referred_to,
            given=given,
        )
        only = given_condition(given)
        mariadb, first = target.mariadb, row[L.T_COLUMN]
        values = self._list(
            [(pair, ",", value_form(*_sides(pair), mariadb=mariadb)) for pair in pairs], first
        )
        changes = self._list(
            [
                (pair, f",{quoted(pair.target.name)}=", value_form(*_sides(pair), mariadb=mariadb))
                for pair in pairs
            ],
            first,
        )
        where = self._where(pairs, keys, mariadb, first, f" WHERE {only}")
        single = len(keys) == 1
        listed = where
        if single:
            listed = self._list([(keys[0], "", _key_form(keys[0], mariadb))], first)
        elif keys:
            listed = self._where(pairs, keys, mariadb, first, "")
        matched = -1 if safe_mode else 1
        many = (_KEYS if single else _COMPOSITE_KEYS) if keys else 1
        if entry.facts.refers_to_itself:
            # A list is not worked off in commit order: parents might go before their children.
            many = 1
        nothing = (0, 0)
        forms = [
            self._form(said[S.S_INSERT], matched, _NO_LIMIT, values, nothing),
            self._form(said[S.S_UPSERT], 2, _NO_LIMIT, values, nothing),
            self._form(said[S.S_UPDATE], matched, 1, changes, where),
            self._form(said[S.S_DELETE], matched, many, nothing, listed),
        ]
        forms[S.S_UPDATE][S.F_WAY] = way
        self._forms.add(forms)

    def _form(
        self, said: Words, matched: int, most: int, values: tuple[int, int], where: tuple[int, int]
    ) -> list[int]:
        form = [0] * S.F_SIZE
        for place, text in (
            (S.F_HEAD, said.head),
            (S.F_FREE, said.free),
            (S.F_BETWEEN, said.between),
            (S.F_TAIL, said.tail),
        ):
            form[place], form[place + 1] = self._constants.add(text.encode()), len(text.encode())
        form[S.F_VALUES], form[S.F_VALUES_COUNT] = values
        form[S.F_WHERE], form[S.F_WHERE_COUNT] = where
        form[S.F_ROWS], form[S.F_MATCHED] = most, matched
        return form

    def _where(
        self, pairs: list[_Pair], keys: list[_Pair], mariadb: bool, first: int, lead: str
    ) -> tuple[int, int]:
        """Items of a condition: the key's columns, or all of them byte for byte."""
        found: list[tuple[_Pair, str, LiteralForm]] = []
        for pair in keys or pairs:
            if keys:
                left, form = quoted(pair.target.name) + "=", _key_form(pair, mariadb)
            else:
                left, form = compared(*_sides(pair), mariadb=mariadb)
                left += "<=>"
            joint = " AND " if found else lead
            found.append((pair, joint + left, form))
        return self._list(found, first)

    def _list(self, items: list[tuple[_Pair, str, LiteralForm]], first: int) -> tuple[int, int]:
        at = len(self._items)
        rows = []
        for pair, prefix, form in items:
            item = [0] * S.I_SIZE
            item[S.I_ORDINAL], item[S.I_COLUMN] = pair.ordinal, first + pair.ordinal
            item[S.I_FORM] = form.form
            text = prefix.encode()
            item[S.I_PREFIX], item[S.I_PREFIX_LENGTH] = self._constants.add(text), len(text)
            item[S.I_A], item[S.I_B] = self._parameters(form)
            item[S.I_C] = form.width
            if form.constant:
                item[S.I_C] = self._constants.add(form.constant)
            elif form.form == S.FORM_ENUM:
                item[S.I_C] = -1
            # Else the target would set it to the time of now.
            item[S.I_ALWAYS] = int(pair.target.on_update is not None)
            item[S.I_ROOM], item[S.I_FACTOR] = form.room, form.factor
            rows.append(item)
        self._items.add(rows)
        return at, len(rows)

    def _parameters(self, form: LiteralForm) -> tuple[int, int]:
        if form.introducer:
            return self._constants.add(form.introducer), len(form.introducer)
        at = len(self._numbers)
        if form.literals:
            for literal in form.literals:
                self._numbers.add([[self._constants.add(literal)], [len(literal)]])
            return at, len(form.literals)
        if form.numbers:
            self._numbers.add([number] for number in form.numbers)
            return at, len(form.numbers)
        return (-1, 0) if form.form in (S.FORM_ENUM, S.FORM_SET) else (0, 0)


def _sides(pair: _Pair) -> tuple[Column, Storage, Column]:
    return pair.source, pair.stored, pair.target


def _key_form(pair: _Pair, mariadb: bool) -> LiteralForm:
    form = value_form(*_sides(pair), mariadb=mariadb)
    return LiteralForm(form.form, numbers=form.numbers) if form.form == S.FORM_ENUM else form


def _given(given: Given, table: Table, there: TargetTable) -> list[tuple[str, str]]:
    """Columns with their values as literals; raises if one cannot have its value."""
    for column, _ in given:
        if column.lower() in table.positions:
            raise TargetIncompatible(
                f"column {column}, which is to be extracted from names, is upstream too",
                object=table.full_name,
                hint="give it another name: target-column in sink.dispatchers",
            )
        if column.lower() not in there.table.positions:
            raise TargetColumnMissing(
                f"column {column}, which is to be extracted from names, is not there",
                object=there.name,
                hint="add the column at the target",
            )
    return [(column, literal(value).decode()) for column, value in given]


def _pairs(laid: Planned, there: TargetTable, given: Collection[str]) -> list[_Pair]:
    """The columns that are written; raises if one has no place or no value."""
    table, theirs = there.table, there.table.positions
    found, used = [], set()
    for i, column in enumerate(laid.columns):
        place = theirs.get(column.name.lower())
        if place is None:
            if column.generated is not Generated.NO:
                continue
            raise TargetColumnMissing(
                f"column {column.name} is not there",
                object=there.name,
                hint="add the column at the target",
            )
        used.add(place)
        target = table.columns[place]
        if target.generated is not Generated.NO:
            continue
        if column.generated is Generated.VIRTUAL:
            raise TargetIncompatible(
                f"column {column.name} is virtual upstream, so that no row has its value, and an "
                "ordinary one at the target",
                object=there.name,
                hint="make it a generated column at the target",
            )
        found.append(_Pair(i, column, laid.storages[i], target))
    for i, target in enumerate(table.columns):
        if target.name.lower() in given:
            continue
        if i not in used and not _fills_itself(target):
            raise TargetIncompatible(
                f"column {target.name} is not upstream, and must have a value",
                object=there.name,
                hint="give the column a default value, or let it be NULL",
            )
    return found


def _fills_itself(column: Column) -> bool:
    generated = column.generated is not Generated.NO or column.auto_increment
    return generated or column.nullable or column.default is not None


def _keys(table: Table, there: TargetTable, pairs: list[_Pair]) -> list[_Pair]:
    """The columns that identify a row on both sides; none means all columns."""
    by_source = {pair.ordinal: pair for pair in pairs}
    own = [by_source[i] for i in table.handle_key if i in by_source]
    if own and len(own) == len(table.handle_key):
        return own
    by_name = {pair.target.name.lower(): pair for pair in pairs}
    names = [there.table.columns[i].name.lower() for i in there.table.handle_key]
    return [by_name[name] for name in names] if all(name in by_name for name in names) else []


def _upserts(there: TargetTable, keys: list[_Pair], given: Collection[str]) -> bool:
    """Whether INSERT … ON DUPLICATE KEY UPDATE finds the row by this key and no other."""
    unique = [index for index in there.table.indexes if index.unique or index.primary]
    if len(unique) != 1 or not keys:
        return False
    whole = all(part is None for part in unique[0].prefixes)
    names = {pair.target.name.lower() for pair in keys}
    unique_of = {name.lower() for name in unique[0].columns}
    return whole and names <= unique_of <= names | {name.lower() for name in given}


def _way(
    facts: Facts, pairs: list[_Pair], keys: list[_Pair], upserts: bool, safe_mode: bool
) -> int:
    if not keys:
        return S.WAY_UPDATE
    if safe_mode:
        return S.WAY_REPLACE
    # A trigger for INSERT would run too, and a value that becomes the same is counted otherwise.
    exact = all(same_values(pair.source, pair.target) for pair in pairs)
    alone = upserts and len(pairs) > len(keys) and not facts.triggers
    return S.WAY_UPSERT if exact and alone else S.WAY_UPDATE
