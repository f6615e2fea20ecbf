"""Maxwell's JSON under one set of options (``sink.codec.contract.MessageCodec``).

Messages as Maxwell with its defaults makes them; docs/messages.md says what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from cdc.base.ts import Ts
from cdc.kernels import maxwell
from cdc.rows.batch import Buffer, Order, RowBatch
from sink.codec.batches import EncodeStep, batches
from sink.codec.contract import CodecEntry, EncodedMessages, EncodeLimits, Framing, Message
from sink.codec.maxwell.plan import NO_TABLES, MaxwellPlan, maxwell_plan
from sink.codec.maxwell.settings import MaxwellSettings
from sink.codec.tables import CodecTables
from sink.schema_change import SchemaChange, TableName


class MaxwellCodec:
    """Plans and rows of maxwell. It has no watermarks and no schema changes."""

    def __init__(self, settings: MaxwellSettings) -> None:
        self.settings = settings
        self._tables = CodecTables(settings)

    @property
    def no_tables(self) -> MaxwellPlan:
        """What a first plan goes on from."""
        return NO_TABLES

    def plan(self, entries: Sequence[CodecEntry], before: MaxwellPlan = NO_TABLES) -> MaxwellPlan:
        """Plans for further tables of a job (``MessageCodec.plan``).

        Raises as ``CodecTables.planned`` does.
        """
        tables = self._tables.planned(entries, before.plans)
        return maxwell_plan(
            tables, self.settings, self._tables.names, self._tables.selectors, before
        )

    def watermark(self, ts: Ts, build_ms: int) -> Message | None:
        """None: consumers of Maxwell know no such message."""
        return None

    def schema_change(
        self, change: SchemaChange, tables: Collection[TableName], build_ms: int
    ) -> Message | None:
        """None: Maxwell sends none unless it is told to, and its consumers take them for errors."""
        return None

    def encode(
        self,
        rows: RowBatch,
        plan: MaxwellPlan,
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

        def encode(i: int, base_ms: int, out: Buffer) -> EncodeStep:
            return EncodeStep(
                *maxwell.encode(
                    rows.buf, rows.refs, order, i, plans.tables, plans.columns, heads,
                    plan.forms, plan.keys, plan.members, plan.constants,
                    plans.zone_starts, plans.zone_offsets, plans.texts, int(framing), base_ms,
                    limits.message, limits.batch, out,
                )
            )  # fmt: skip

        return batches(rows, order, limits, buffer, encode)
