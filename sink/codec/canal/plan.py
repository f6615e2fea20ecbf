"""Plans of canal-json: what is the same in all messages of a table, laid out for the kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cdc.kernels import canal_layout as C  # noqa: N812
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows import plan
from cdc.rows.matrix import NO_CONSTANTS, Bytes, Constants, Matrix, MatrixRows, no_rows
from cdc.rows.plan import PlanBuilder, Planned, PlanSet
from sink.codec.canal.settings import CanalSettings
from sink.codec.canal.types import mysql_type, sql_type
from sink.codec.given import given_of, members
from sink.codec.json_text import json_text
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.extracted import Given, given_column
from sink.dispatch.target import TargetRouter

_DIGITS = "0" * 13
_KINDS = ("INSERT", "UPDATE", "DELETE")
_BETWEEN = '}],"data":[{'


@dataclass(frozen=True)
class CanalPlan:
    """The tables of a job as ``kernels.canal.encode`` takes them. Picklable.

    ``plans`` locates their rows; ``heads`` and ``names`` are the matrices of ``canal_layout``,
    ``constants`` uint8[:].
    """

    plans: PlanSet
    heads: Matrix
    names: Matrix
    constants: Bytes


NO_TABLES = CanalPlan(plan.NO_TABLES, no_rows(C.H_SIZE), no_rows(C.N_SIZE), NO_CONSTANTS)


def canal_plan(
    entries: Iterable[Planned],
    settings: CanalSettings,
    names: TargetRouter,
    selectors: ColumnSelectors,
    before: CanalPlan,
) -> CanalPlan:
    """Plans of tables, behind those of ``before``; their order is the plan index of runs."""
    layout = _Layout(settings, names, selectors, before)
    for entry in entries:
        layout.add(entry)
    return layout.build()


class _Layout:
    def __init__(
        self,
        settings: CanalSettings,
        names: TargetRouter,
        selectors: ColumnSelectors,
        before: CanalPlan,
    ) -> None:
        self._settings = settings
        self._router = names
        self._selectors = selectors
        self._rows = PlanBuilder(before.plans)
        self._heads = MatrixRows(before.heads)
        self._names = MatrixRows(before.names)
        self._constants = Constants(before.constants)

    def build(self) -> CanalPlan:
        return CanalPlan(
            plans=self._rows.build(self._settings.time_zone),
            heads=self._heads.build(),
            names=self._names.build(),
            constants=self._constants.build(),
        )

    def add(self, entry: Planned) -> None:
        row, columns = self._rows.add(entry)
        selected = self._selectors.selected(entry.table)
        for i in set(range(len(columns))).difference(selected):
            columns[i][L.C_FLAGS] |= L.COLUMN_HIDDEN
        shown = [i for i in selected if not columns[i][L.C_FLAGS] & L.COLUMN_HIDDEN]
        keys = [i for i in shown if i in entry.table.handle_key]
        given = given_of(entry.table, self._settings.dispatchers, self._router)
        # What is left of a key by column selectors does not name a row.
        whole = bool(keys) and len(keys) == len(entry.table.handle_key)
        keys_only = self._settings.delete_only_output_handle_key_columns and whole
        if keys_only:
            row[L.T_OPTIONS] |= L.OPTION_DELETE_KEYS
        names = [[0] * C.N_SIZE for _ in columns]
        for name in names:
            name[C.N_HOLE] = name[C.N_HOLE_DELETE] = -1
        room = 0
        for i in shown:
            self._name(entry, i, names[i])
            room += names[i][C.N_NAME_LENGTH] + entry.storages[i].room
        heads = [
            self._head(entry, kind, keys if kind == "DELETE" and keys_only else shown, given)
            for kind in _KINDS
        ]
        for i, hole in heads[0][1].items():
            names[i][C.N_HOLE] = hole
        for i, hole in heads[2][1].items():
            names[i][C.N_HOLE_DELETE] = hole
        self._names.add(names)
        self._heads.add([self._head_row([head for head, _ in heads], room, given, keyed=whole)])

    def _head_row(self, heads: list[bytes], room: int, given: Given, *, keyed: bool) -> list[int]:
        row = [0] * C.H_SIZE
        between, key = (f"{text}{members(given)}".encode() for text in (_BETWEEN, "{"))
        for k, head in enumerate(heads):
            row[C.H_HEAD + k], row[C.H_HEAD_LENGTH + k] = self._constants.add(head), len(head)
        # A name may hold as many zeros, but no quote that is not escaped.
        row[C.H_ES] = heads[0].index(f'"es":{_DIGITS}'.encode()) + len('"es":')
        tail = b"}]}"
        if self._settings.enable_tidb_extension:
            tail = b'}],"_tidb":{"commitTs":'
            row[C.H_OPTIONS] |= C.OPTION_COMMIT_TS
        if self._settings.old_changed_only:
            row[C.H_OPTIONS] |= C.OPTION_OLD_CHANGED
        if self._settings.handle_key_as_record_key and keyed:
            row[C.H_OPTIONS] |= C.OPTION_RECORD_KEY
        if given:
            row[C.H_OPTIONS] |= C.OPTION_GIVEN
        row[C.H_BETWEEN], row[C.H_BETWEEN_LENGTH] = self._constants.add(between), len(between)
        row[C.H_KEY], row[C.H_KEY_LENGTH] = self._constants.add(key), len(key)
        row[C.H_TAIL], row[C.H_TAIL_LENGTH] = self._constants.add(tail), len(tail)
        row[C.H_BOUND] = max(map(len, heads)) + 2 * room + len(between) + len(tail) + 256
        return row

    def _name(self, entry: Planned, i: int, row: list[int]) -> None:
        name = f',{json_text(entry.columns[i].name)}:"'.encode()
        row[C.N_NAME], row[C.N_NAME_LENGTH] = self._constants.add(name), len(name)
        usual, large = sql_type(entry.columns[i])
        if large is not None:
            text = str(large).encode()
            row[C.N_CODE], row[C.N_CODE_LENGTH] = self._constants.add(text), len(text)
            row[C.N_CODE_USUAL] = len(str(usual))

    def _head(
        self, entry: Planned, kind: str, shown: list[int], given: Given
    ) -> tuple[bytes, dict[int, int]]:
        """Everything before the first value, with zeros for es and ts; offsets of sqlType holes."""
        table = entry.table
        primary = next((index for index in table.indexes if index.primary), None)
        selected = {table.columns[i].name.lower() for i in self._selectors.selected(table)}
        kept = [n for n in primary.columns if n.lower() in selected] if primary else []
        names = json_text([*kept, *(name for name, _ in given)] if kept else None)
        database, name = self._router.target(table.schema, table.name)
        head = (
            f'{{"id":0,"database":{json_text(database)},"table":{json_text(name)},'
            f'"pkNames":{names},"isDdl":false,"type":"{kind}","es":{_DIGITS},"ts":{_DIGITS},'
            f'"sql":"","sqlType":{{'
        ).encode()
        holes = {}
        others = [given_column(name) for name, _ in given]
        head += ",".join(f"{json_text(c.name)}:{sql_type(c)[0]}" for c in others).encode()
        for n, i in enumerate(shown):
            column = entry.columns[i]
            usual, large = sql_type(column)
            head += ("," if n or given else "").encode() + f"{json_text(column.name)}:".encode()
            if large is not None:
                holes[i] = len(head)
            head += str(usual).encode()
        types = {
            column.name: mysql_type(column, self._settings.content_compatible)
            for column in (*others, *(entry.columns[i] for i in shown))
        }
        # What all rows have does not change, so changed columns are without it.
        begin = '"old":[{' if kind == "UPDATE" else '"old":null,"data":[{'
        if kind != "UPDATE" or not self._settings.old_changed_only:
            begin += members(given)
        return head + f'}},"mysqlType":{json_text(types)},{begin}'.encode(), holes
