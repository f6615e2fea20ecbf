"""canal-json under one set of options (``sink.codec.contract.MessageCodec``).

Layout as TiCDC's: one message an event, all values strings or null.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from cdc.base.ts import Ts
from cdc.changelog.vtso_marks import NO_MARKS
from cdc.kernels import canal
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import Buffer, Order, RowBatch
from sink.codec.batches import EncodeStep, batches
from sink.codec.canal.ddl import ddl_message
from sink.codec.canal.messages import message
from sink.codec.canal.plan import NO_TABLES, CanalPlan, canal_plan
from sink.codec.canal.settings import CanalSettings
from sink.codec.contract import CodecEntry, EncodedMessages, EncodeLimits, Framing, Message
from sink.codec.tables import CodecTables
from sink.schema_change import SchemaChange, TableName


class CanalCodec:
    """Plans, rows and watermarks of canal-json."""

    def __init__(self, settings: CanalSettings) -> None:
        self.settings = settings
        self._tables = CodecTables(settings)

    @property
    def no_tables(self) -> CanalPlan:
        """What a first plan goes on from."""
        return NO_TABLES

    def plan(self, entries: Sequence[CodecEntry], before: CanalPlan = NO_TABLES) -> CanalPlan:
        """Plans for further tables of a job (``MessageCodec.plan``).

        Raises as ``CodecTables.planned`` does.
        """
        tables = self._tables.planned(entries, before.plans)
        return canal_plan(tables, self.settings, self._tables.names, self._tables.selectors, before)

    def watermark(self, ts: Ts, build_ms: int) -> Message | None:
        """The WATERMARK message, or None without the TiDB extension."""
        if not self.settings.enable_tidb_extension:
            return None
        more = {"_tidb": {"watermarkTs": ts}}
        return Message(None, message("", "", "TIDB_WATERMARK", ts, build_ms, more=more))

    def schema_change(
        self, change: SchemaChange, tables: Collection[TableName], build_ms: int
    ) -> Message:
        """The DDL's message (``sink.codec.canal.ddl``)."""
        return Message(None, ddl_message(change, tables, self.settings, build_ms))

    def encode(
        self,
        rows: RowBatch,
        plan: CanalPlan,
        order: Order,
        build_ms: int,
        *,
        limits: EncodeLimits = EncodeLimits(),  # noqa: B008
        framing: Framing = Framing.RECORDS,
        buffer: Callable[[int], Buffer] | None = None,
    ) -> Iterator[EncodedMessages]:
        """Messages of ``rows.refs[order]`` (``MessageCodec.encode``)."""
        plans = plan.plans
        marks = NO_MARKS if rows.transactions is None else rows.transactions.named()

        def encode(i: int, base_ms: int, out: Buffer) -> EncodeStep:
            after, size, detail, error, at = canal.encode(
                rows.buf, rows.refs, order, i, plans.tables, plans.columns, plan.heads, plan.names,
                plan.constants, plans.zone_starts, plans.zone_offsets, plans.texts, marks,
                int(framing), build_ms, base_ms, limits.message, limits.batch, out,
            )  # fmt: skip
            sized = error in (L.ERR_ROOM, L.ERR_TOO_LARGE)
            return EncodeStep(after, size, after - i, error, detail if sized else at)

        return batches(rows, order, limits, buffer, encode)
