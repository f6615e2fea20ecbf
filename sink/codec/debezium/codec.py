"""Debezium's JSON under one set of options (``sink.codec.contract.MessageCodec``).

Messages as Debezium's MySQL connector with its defaults makes them; docs/messages.md says what
differs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from cdc.base.ts import Ts
from cdc.kernels import debezium
from cdc.rows.batch import Buffer, Order, RowBatch
from sink.codec.batches import EncodeStep, batches
from sink.codec.contract import CodecEntry, EncodedMessages, EncodeLimits, Framing, Message
from sink.codec.debezium.ddl import ddl_message
from sink.codec.debezium.names import NO_NAMES, UpstreamNames, upstream_names
from sink.codec.debezium.plan import NO_TABLES, DebeziumPlan, debezium_plan
from sink.codec.debezium.settings import DebeziumSettings
from sink.codec.tables import CodecTables
from sink.schema_change import SchemaChange, TableName


class DebeziumCodec:
    """Plans, rows and schema changes of debezium. It has no watermarks."""

    def __init__(self, settings: DebeziumSettings) -> None:
        self.settings = settings
        self._tables = CodecTables(settings)
        self._named: tuple[RowBatch | None, UpstreamNames] = (None, NO_NAMES)

    @property
    def no_tables(self) -> DebeziumPlan:
        """What a first plan goes on from."""
        return NO_TABLES

    def plan(self, entries: Sequence[CodecEntry], before: DebeziumPlan = NO_TABLES) -> DebeziumPlan:
        """Plans for further tables of a job (``MessageCodec.plan``).

        Raises as ``CodecTables.planned`` does.
        """
        tables = self._tables.planned(entries, before.plans)
        return debezium_plan(
            tables, self.settings, self._tables.names, self._tables.selectors, before
        )

    def watermark(self, ts: Ts, build_ms: int) -> Message | None:
        """None: consumers of Debezium know no such message."""
        return None

    def schema_change(
        self, change: SchemaChange, tables: Collection[TableName], build_ms: int
    ) -> Message:
        """The DDL's message (``sink.codec.debezium.ddl``)."""
        return ddl_message(change, tables, self.settings, build_ms)

    def encode(
        self,
        rows: RowBatch,
        plan: DebeziumPlan,
        order: Order,
        build_ms: int,
        *,
        limits: EncodeLimits = EncodeLimits(),  # noqa: B008
        framing: Framing = Framing.RECORDS,
        buffer: Callable[[int], Buffer] | None = None,
    ) -> Iterator[EncodedMessages]:
        """Messages of ``rows.refs[order]`` (``MessageCodec.encode``)."""
        plans = plan.plans
        heads = plan.read_heads if rows.snapshot else plan.heads
        names, labels, places = self._names_of(rows)

        def encode(i: int, base_ms: int, out: Buffer) -> EncodeStep:
            return EncodeStep(
                *debezium.encode(
                    rows.buf, rows.refs, order, i, plans.tables, plans.columns, heads,
                    plan.forms, plan.keys, plan.members, plan.constants, plans.texts,
                    names, labels, places, int(framing), build_ms, base_ms,
                    limits.message, limits.batch, out,
                )
            )  # fmt: skip

        return batches(rows, order, limits, buffer, encode)

    def _names_of(self, rows: RowBatch) -> UpstreamNames:
        # Once for all destinations of a chunk.
        if rows is not self._named[0]:
            self._named = rows, upstream_names(rows)
        return self._named[1]
