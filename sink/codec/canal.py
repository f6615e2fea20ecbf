"""canal-json: plans for the encoding kernel, and the rare messages built in Python.

Layout as TiCDC's: one Kafka message an event, all values strings or null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from cdc.base.ts import Ts, physical_ms
from cdc.binlog.table_map import TableMap
from cdc.kernels import layout as L  # noqa: N812
from cdc.schema.table import Table
from sink.codec.columns import mysql_type, sql_type
from sink.codec.plan import PlanBuilder, Planned, PlanSet, planned
from sink.codec.route import Route
from sink.codec.settings import CanalSettings
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.target import TargetRouter

_DIGITS = "0" * 13
_KINDS = ("INSERT", "UPDATE", "DELETE")


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class CanalCodec:
    """Builds plan sets and messages of canal-json under one set of options."""

    def __init__(self, settings: CanalSettings) -> None:
        self.settings = settings
        sensitive = settings.case_sensitive
        self._names = TargetRouter.of(settings.dispatchers, case_sensitive=sensitive)
        self._columns = ColumnSelectors(settings.column_selectors, case_sensitive=sensitive)

    def plan_set(self, entries: Sequence[tuple[Table, TableMap, Route]]) -> PlanSet:
        """Plans for the tables of a job; the index in ``entries`` is the plan index of runs.

        Raises ``SchemaMismatch``, ``ColumnTypeNotSupported``, ``ColumnSelectorFailed``, or
        ``RouteConflict`` if two of them have one name at the target.
        """
        builder = PlanBuilder()
        self._names.check({(table.schema, table.name) for table, _, _ in entries})
        for table, stored, route in entries:
            self._columns.check(table)
            self._add(builder, planned(table, stored, route))
        return builder.build(self.settings.time_zone)

    def watermark(self, ts: Ts, build_ms: int) -> bytes | None:
        """The WATERMARK message, or None without the TiDB extension."""
        if not self.settings.enable_tidb_extension:
            return None
        more = {"_tidb": {"watermarkTs": ts}}
        return message("", "", "TIDB_WATERMARK", ts, build_ms, more=more)

    def _add(self, builder: PlanBuilder, entry: Planned) -> None:
        row, columns = builder.add(entry)
        selected = self._columns.selected(entry.table)
        for i in set(range(len(columns))).difference(selected):
            columns[i][L.C_FLAGS] |= L.COLUMN_HIDDEN
        shown = [i for i in selected if not columns[i][L.C_FLAGS] & L.COLUMN_HIDDEN]
        keys = [i for i in shown if i in entry.table.handle_key]
        # What is left of a key by column selectors does not name a row.
        whole = bool(keys) and len(keys) == len(entry.table.handle_key)
        keys_only = self.settings.delete_only_output_handle_key_columns and whole
        room = 0
        for i in shown:
            self._add_column(builder, entry, i, columns[i])
            room += columns[i][L.C_NAME_LENGTH] + entry.storages[i].room
        heads = [
            self._head(entry, kind, keys if kind == "DELETE" and keys_only else shown)
            for kind in _KINDS
        ]
        for k, (head, _) in enumerate(heads):
            row[L.T_HEAD + k] = builder.constant(head)
            row[L.T_HEAD_LENGTH + k] = len(head)
        # A name may hold as many zeros, but no quote that is not escaped.
        row[L.T_ES] = heads[0][0].index(f'"es":{_DIGITS}'.encode()) + len('"es":')
        for i, hole in heads[0][1].items():
            columns[i][L.C_HOLE] = hole
            row[L.T_UNSIGNED] = 1
        for i, hole in heads[2][1].items():
            columns[i][L.C_HOLE_DELETE] = hole
        between, tail = b'}],"data":[{', b"}]}"
        if self.settings.enable_tidb_extension:
            tail = b'}],"_tidb":{"commitTs":'
            row[L.T_OPTIONS] |= L.OPTION_COMMIT_TS
        row[L.T_BETWEEN], row[L.T_BETWEEN_LENGTH] = builder.constant(between), len(between)
        row[L.T_TAIL], row[L.T_TAIL_LENGTH] = builder.constant(tail), len(tail)
        if self.settings.old_changed_only:
            row[L.T_OPTIONS] |= L.OPTION_OLD_CHANGED
        if keys_only:
            row[L.T_OPTIONS] |= L.OPTION_DELETE_KEYS
        longest = max(len(head) for head, _ in heads)
        row[L.T_BOUND] = longest + 2 * room + len(between) + len(tail) + 128

    def _add_column(self, builder: PlanBuilder, entry: Planned, i: int, column: list[int]) -> None:
        name = f',{_text(entry.columns[i].name)}:"'.encode()
        column[L.C_NAME], column[L.C_NAME_LENGTH] = builder.constant(name), len(name)
        usual, large = sql_type(entry.columns[i])
        if large is not None:
            text = str(large).encode()
            column[L.C_CODE], column[L.C_CODE_LENGTH] = builder.constant(text), len(text)
            column[L.C_CODE_USUAL] = len(str(usual))
            column[L.C_FLAGS] |= L.COLUMN_UNSIGNED

    def _head(self, entry: Planned, kind: str, shown: list[int]) -> tuple[bytes, dict[int, int]]:
        """Everything before the first value, with zeros for es and ts; offsets of sqlType holes."""
        table = entry.table
        primary = next((index for index in table.indexes if index.primary), None)
        selected = {table.columns[i].name.lower() for i in self._columns.selected(table)}
        kept = [n for n in primary.columns if n.lower() in selected] if primary else []
        names = _text(kept or None)
        database, name = self._names.target(table.schema, table.name)
        head = (
            f'{{"id":0,"database":{_text(database)},"table":{_text(name)},'
            f'"pkNames":{names},"isDdl":false,"type":"{kind}","es":{_DIGITS},"ts":{_DIGITS},'
            f'"sql":"","sqlType":{{'
        ).encode()
        holes = {}
        for n, i in enumerate(shown):
            column = entry.columns[i]
            usual, large = sql_type(column)
            head += ("," if n else "").encode() + f"{_text(column.name)}:".encode()
            if large is not None:
                holes[i] = len(head)
            head += str(usual).encode()
        types = {
            entry.columns[i].name: mysql_type(entry.columns[i], self.settings.content_compatible)
            for i in shown
        }
        old = '"old":[{' if kind == "UPDATE" else '"old":null,"data":[{'
        return head + f'}},"mysqlType":{_text(types)},{old}'.encode(), holes


def message(
    schema: str,
    table: str,
    kind: str,
    ts: Ts,
    build_ms: int,
    *,
    sql: str = "",
    ddl: bool = False,
    more: Mapping[str, object] | None = None,
) -> bytes:
    """A message that is not of rows; ``more`` are the members of extensions."""
    members: dict[str, object] = {
        "id": 0,
        "database": schema,
        "table": table,
        "pkNames": None,
        "isDdl": ddl,
        "type": kind,
        "es": physical_ms(ts),
        "ts": build_ms,
        "sql": sql,
        "sqlType": None,
        "mysqlType": None,
        "data": None,
        "old": None,
    }
    return _text(members | dict(more or {})).encode()
