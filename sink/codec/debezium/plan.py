"""Plans of debezium: what is the same in all messages of a table, laid out for the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cdc
from cdc.kernels import debezium_layout as D  # noqa: N812
from cdc.kernels import json_layout as J  # noqa: N812
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows import plan
from cdc.rows.matrix import NO_CONSTANTS, Bytes, Constants, Matrix, MatrixRows, no_rows
from cdc.rows.plan import PlanBuilder, Planned, PlanSet
from cdc.rows.storage import ColumnTypeNotSupported
from sink.codec.debezium.envelope import CONNECTOR, envelope, field, struct
from sink.codec.debezium.settings import DebeziumSettings
from sink.codec.debezium.types import form, member_text, schema
from sink.codec.given import given_of, members
from sink.codec.json_text import json_text
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.extracted import Given
from sink.dispatch.target import TargetRouter


@dataclass(frozen=True)
class DebeziumPlan:
    """The tables of a job as ``kernels.debezium.encode`` takes them. Picklable.

    ``plans`` locates their rows; ``heads`` and ``forms`` are the matrices of ``debezium_layout``,
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


NO_TABLES = DebeziumPlan(
    plan.NO_TABLES, no_rows(D.H_SIZE), no_rows(D.H_SIZE), no_rows(D.N_SIZE), no_rows(J.K_SIZE),
    no_rows(J.M_SIZE), NO_CONSTANTS,
)  # fmt: skip


def debezium_plan(
    entries: Iterable[Planned],
    settings: DebeziumSettings,
    names: TargetRouter,
    selectors: ColumnSelectors,
    before: DebeziumPlan,
) -> DebeziumPlan:
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
        settings: DebeziumSettings,
        names: TargetRouter,
        selectors: ColumnSelectors,
        before: DebeziumPlan,
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

    def build(self) -> DebeziumPlan:
        return DebeziumPlan(
            plans=self._rows.build("UTC"),
            heads=self._heads.build(),
            read_heads=self._read_heads.build(),
            forms=self._forms.build(),
            keys=self._keys.build(),
            members=self._members.build(),
            constants=self._constants.build(),
        )

    def add(self, entry: Planned) -> None:
        row, columns = self._rows.add(entry)
        selected = self._selectors.selected(entry.table)
        for i in set(range(len(columns))).difference(selected):
            columns[i][L.C_FLAGS] |= L.COLUMN_HIDDEN
        shown = [i for i in selected if not columns[i][L.C_FLAGS] & L.COLUMN_HIDDEN]
        key = entry.table.handle_key
        # What is left of a key by column selectors does not name a row.
        key = key if set(key) <= set(shown) else ()
        if key:
            # A record is about one key: consumers would keep the row of the old one.
            row[L.T_OPTIONS] |= L.OPTION_SPLIT
        forms = [[0] * D.N_SIZE for _ in columns]
        rooms = {i: self._form(entry, i, forms[i]) for i in shown}
        self._forms.add(forms)
        names = sum(forms[i][D.N_NAME_LENGTH] for i in shown)
        most = 2 * (names + sum(rooms.values()))
        # The key of a DELETE stands in its tombstone, too.
        most += 2 * sum(rooms[i] + forms[i][D.N_NAME_LENGTH] for i in key)
        given = given_of(entry.table, self._settings.dispatchers, self._router)
        head = self._head(entry, shown, key, given, most)
        self._heads.add([head])
        self._read_heads.add([self._read_head(entry, head)])

    def _put(self, row: list[int], at: int, text: str) -> int:
        data = text.encode()
        row[at], row[at + 1] = self._constants.add(data), len(data)
        return len(data)

    def _form(self, entry: Planned, i: int, row: list[int]) -> int:
        """Fill a column's row of ``forms``; the most bytes beside those by its stored length."""
        column, stored = entry.columns[i], entry.storages[i]
        self._put(row, D.N_NAME, f",{json_text(column.name)}:")
        try:
            row[D.N_FORM] = form(column, stored)
        except ColumnTypeNotSupported as error:
            raise ColumnTypeNotSupported(
                error.message, object=f"{entry.table.full_name}.{error.object}", hint=error.hint
            ) from None
        row[D.N_OPTIONAL] = int(column.nullable and i not in entry.table.handle_key)
        row[D.N_MEMBER], row[D.N_MEMBERS] = len(self._members), len(column.members)
        room = stored.room
        for member in column.members:
            text = member_text(member) if row[D.N_FORM] == D.FORM_ENUM else member
            one = [0] * J.M_SIZE
            room += self._put(one, J.M_TEXT, json_text(text)[1:-1]) + 1
            self._members.add([one])
        return room

    def _head(
        self,
        entry: Planned,
        shown: Sequence[int],
        key: Sequence[int],
        given: Given,
        most: int,
    ) -> list[int]:
        """A table's row of ``heads``; its values take ``most`` beside those by image length."""
        database, table = self._router.target(entry.table.schema, entry.table.name)
        name = f"{self._settings.name}.{database}.{table}"
        fields = {
            i: schema(
                entry.columns[i],
                entry.storages[i],
                optional=entry.columns[i].nullable and i not in entry.table.handle_key,
            )
            for i in shown
        }
        others = [field(column, "string") for column, _ in given]
        before, end = self._around(envelope(name, [*others, *fields.values()]))
        row = [0] * D.H_SIZE
        db, label = json_text(database), json_text(table)
        prefix = json_text(self._settings.name)
        most += self._put(row, D.H_HEAD, before + '{"before":')
        most += self._put(
            row,
            D.H_NAME,
            f',"source":{{"version":{json_text(cdc.__version__)},"connector":"{CONNECTOR}",'
            f'"name":{prefix},"ts_ms":',
        )
        most += self._put(row, D.H_DB, _database(db, "false"))
        most += self._put(
            row,
            D.H_TABLE,
            f'000000,"table":{label},"server_id":',
        )
        most += self._put(row, D.H_ROW, ',"thread":null,"query":null,"commit_ts":')
        for n, op in enumerate("cud"):
            most += self._put(row, D.H_OP + 2 * n, _operation(op))
        most += self._put(row, D.H_TAIL, "000000}" + end)
        row[D.H_KEY], row[D.H_KEYS] = len(self._keys), len(key)
        row_head = f"{{{members(given)}"
        most += 2 * self._put(row, D.H_ROW_HEAD, row_head)
        before, end = self._around(struct([*others, *(fields[i] for i in key)], f"{name}.Key"))
        most += 2 * self._put(row, D.H_KEY_HEAD, before + row_head)
        most += 2 * self._put(row, D.H_KEY_TAIL, "}" + end)
        for n, i in enumerate(key):
            part = [i, 0, 0]
            self._put(
                part, J.K_NAME, f"{',' if n or given else ''}{json_text(entry.columns[i].name)}:"
            )
            self._keys.add([part])
        row[D.H_BOUND] = most + 256
        if not self._settings.debezium_output_old_value:
            row[D.H_OPTIONS] |= D.OPTION_NO_OLD
        if given:
            row[D.H_OPTIONS] |= D.OPTION_GIVEN
        return row

    def _read_head(self, entry: Planned, head: Sequence[int]) -> list[int]:
        """The head for rows that were read and not changed; they are inserts."""
        row = list(head)
        db = json_text(self._router.target(entry.table.schema, entry.table.name)[0])
        self._put(row, D.H_DB, _database(db, "true"))
        self._put(row, D.H_OP, _operation("r"))
        return row

    def _around(self, described: dict[str, object]) -> tuple[str, str]:
        """What stands before and behind a payload of this schema."""
        if self._settings.debezium_disable_schema:
            return "", ""
        return f'{{"schema":{json_text(described)},"payload":', "}"


def _database(db: str, snapshot: str) -> str:
    return f',"snapshot":"{snapshot}","db":{db},"sequence":null,"ts_us":'


def _operation(op: str) -> str:
    return f'}},"transaction":null,"op":"{op}","ts_ms":'
