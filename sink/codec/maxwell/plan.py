"""Plans of maxwell: what is the same in all messages of a table, laid out for the kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cdc.kernels import json_layout as J  # noqa: N812
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import maxwell_layout as X  # noqa: N812
from cdc.rows import plan
from cdc.rows.matrix import NO_CONSTANTS, Bytes, Constants, Matrix, MatrixRows, no_rows
from cdc.rows.plan import PlanBuilder, Planned, PlanSet
from cdc.rows.storage import ColumnTypeNotSupported
from sink.codec.given import given_of, members
from sink.codec.json_text import json_text
from sink.codec.maxwell.settings import MaxwellSettings
from sink.codec.maxwell.types import form
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.target import TargetRouter


@dataclass(frozen=True)
class MaxwellPlan:
    """The tables of a job as ``kernels.maxwell.encode`` takes them. Picklable.

    ``plans`` locates their rows; ``heads`` and ``forms`` are the matrices of ``maxwell_layout``,
    ``keys`` and ``members`` of ``json_layout``, ``constants`` uint8[:]. ``read_heads``: the heads
    for rows of a snapshot.
    """

    plans: PlanSet
    heads: Matrix
    read_heads: Matrix
    forms: Matrix
    keys: Matrix
    members: Matrix
    constants: Bytes


NO_TABLES = MaxwellPlan(
    plan.NO_TABLES, no_rows(X.H_SIZE), no_rows(X.H_SIZE), no_rows(X.N_SIZE), no_rows(J.K_SIZE),
    no_rows(J.M_SIZE), NO_CONSTANTS,
)  # fmt: skip


def maxwell_plan(
    entries: Iterable[Planned],
    settings: MaxwellSettings,
    names: TargetRouter,
    selectors: ColumnSelectors,
    before: MaxwellPlan,
) -> MaxwellPlan:
    """Plans of tables, behind those of ``before``; their order is the plan index of runs.

    Raises ``ColumnTypeNotSupported`` for a column that this format has no form for.
    """
    layout = _Layout(settings, names, selectors, before)
    for entry in entries:
        layout.add(entry)
    return layout.build()


class _Layout:
    def __init__(
        self,
        settings: MaxwellSettings,
        names: TargetRouter,
        selectors: ColumnSelectors,
        before: MaxwellPlan,
    ) -> None:
        self._settings = settings
        self._router = names
        self._selectors = selectors
        self._rows = PlanBuilder(before.plans)
        self._heads = MatrixRows(before.heads)
        self._read_heads = MatrixRows(before.read_heads)
        self._forms = MatrixRows(before.forms)
        self._keys = MatrixRows(before.keys)
        self._members = MatrixRows(before.members)
        self._constants = Constants(before.constants)

    def build(self) -> MaxwellPlan:
        return MaxwellPlan(
            plans=self._rows.build("UTC"),
            heads=self._heads.build(),
            read_heads=self._read_heads.build(),
            forms=self._forms.build(),
            keys=self._keys.build(),
            members=self._members.build(),
            constants=self._constants.build(),
        )

    def add(self, entry: Planned) -> None:
        _, columns = self._rows.add(entry)
        selected = self._selectors.selected(entry.table)
        for i in set(range(len(columns))).difference(selected):
            columns[i][L.C_FLAGS] |= L.COLUMN_HIDDEN
        shown = [i for i in selected if not columns[i][L.C_FLAGS] & L.COLUMN_HIDDEN]
        key = entry.table.handle_key
        # What is left of a key by column selectors does not name a row.
        key = key if set(key) <= set(shown) else ()
        forms = [[0] * X.N_SIZE for _ in columns]
        rooms = {i: self._form(entry, i, forms[i]) for i in shown}
        self._forms.add(forms)
        # A row, what it was before, and its key.
        most = 2 * sum(rooms.values()) + sum(rooms[i] for i in key)
        head = self._head(entry, key, most)
        self._heads.add([head])
        self._read_heads.add([self._read_head(entry, head)])

    def _put(self, row: list[int], at: int, text: str) -> int:
        data = text.encode()
        row[at], row[at + 1] = self._constants.add(data), len(data)
        return len(data)

    def _form(self, entry: Planned, i: int, row: list[int]) -> int:
        """Fill a column's row of ``forms``; the most bytes beside those by its stored length."""
        column, stored = entry.columns[i], entry.storages[i]
        try:
            row[X.N_FORM] = form(column, stored)
        except ColumnTypeNotSupported as error:
            raise ColumnTypeNotSupported(
                error.message, object=f"{entry.table.full_name}.{error.object}", hint=error.hint
            ) from None
        row[X.N_MEMBER], row[X.N_MEMBERS] = len(self._members), len(column.members)
        room = stored.room + self._put(row, X.N_NAME, f",{json_text(column.name)}:")
        for member in column.members:
            one = [0] * J.M_SIZE
            room += self._put(one, J.M_TEXT, json_text(member)[1:-1]) + len('"",')
            self._members.add([one])
        return room

    def _head(self, entry: Planned, key: tuple[int, ...], most: int) -> list[int]:
        """A table's row of ``heads``; its values take ``most`` beside those by image length."""
        given = given_of(entry.table, self._settings.dispatchers, self._router)
        row = [0] * X.H_SIZE
        named = self._named(entry)
        for n, kind in enumerate(("insert", "update", "delete")):
            most += self._put(row, X.H_HEAD + 2 * n, _typed(named, kind))
        most += self._put(row, X.H_DATA, f',"data":{{{members(given)}')
        parts = [(f"pk.{name.lower()}", value) for name, value in given]
        more = "".join(f",{json_text(name)}:{json_text(value)}" for name, value in parts)
        most += self._put(row, X.H_KEY_HEAD, named + more)
        row[X.H_KEY], row[X.H_KEYS] = len(self._keys), len(key)
        for i in key:
            part = [i, 0, 0]
            name = f"pk.{entry.columns[i].name.lower()}"
            most += self._put(part, J.K_NAME, f",{json_text(name)}:")
            self._keys.add([part])
        row[X.H_BOUND] = most + 256
        row[X.H_OPTIONS] = X.OPTION_XID | (X.OPTION_GIVEN if given else 0)
        return row

    def _read_head(self, entry: Planned, head: list[int]) -> list[int]:
        """The head for rows that were read and not changed; they are inserts."""
        row = list(head)
        row[X.H_BOUND] += self._put(row, X.H_HEAD, _typed(self._named(entry), "bootstrap-insert"))
        row[X.H_OPTIONS] &= ~X.OPTION_XID
        return row

    def _named(self, entry: Planned) -> str:
        database, table = self._router.target(entry.table.schema, entry.table.name)
        return f'{{"database":{json_text(database)},"table":{json_text(table)}'


def _typed(named: str, kind: str) -> str:
    return f'{named},"type":"{kind}","ts":'
