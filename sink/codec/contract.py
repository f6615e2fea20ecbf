"""What a message format is to a sink that sends messages.

A codec is made once by each Spark worker, under one set of options. ``plan`` is called when tables
are new to the worker, ``encode`` once for each destination of a chunk of rows, in commit order; all
on one thread. What ``encode`` yields belongs to the caller until it asks for the next. The owner
has one too, and calls ``schema_change`` for each topic of a change. ``sink.codec.protocols`` is the
table of formats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeVar

from cdc.base.ts import Ts
from cdc.binlog.table_map import TableMap
from cdc.kernels import framing as F  # noqa: N812
from cdc.rows.batch import Buffer, Order, RowBatch
from cdc.rows.plan import PlanSet
from cdc.rows.route import Route
from cdc.schema.table import Table
from sink.encoded import Encoded
from sink.schema_change import SchemaChange, TableName

CodecEntry = tuple[Table, TableMap, Route]
"""One delivered table of the log, and where its rows go."""


class Framing(IntEnum):
    """What stands around messages: records of one Kafka batch from offset 0, or line ends."""

    RECORDS = F.RECORDS
    LINES = F.LINES
    CRLF_LINES = F.CRLF_LINES


@dataclass(frozen=True, slots=True)
class EncodeLimits:
    """Bytes of a batch (``batch``; a single message may be more) and of a message (``message``)."""

    batch: int = 1 << 20
    message: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Message:
    """A message that is not of rows."""

    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class EncodedMessages(Encoded):
    """Rows as messages; a row may take ``records`` of its own: more than one, or none."""

    records: int


class CodecPlan(Protocol):
    """A format's constants for the tables of a job, beside the plans that locate their rows."""

    @property
    def plans(self) -> PlanSet:
        """How the rows are located; of what ``encode`` is given, all were located by it."""


P = TypeVar("P", bound=CodecPlan)


class MessageCodec(Protocol[P]):
    """One format under one set of options."""

    @property
    def no_tables(self) -> P:
        """What a first plan goes on from."""

    def plan(self, entries: Sequence[CodecEntry], before: P) -> P:
        """Plans for tables of a job, behind those of ``before``, which stay as they are.

        A table's place in that order is the plan index of runs. Raises a definite error that names
        the table which this format cannot write.
        """

    def encode(
        self,
        rows: RowBatch,
        plan: P,
        order: Order,
        build_ms: int,
        *,
        limits: EncodeLimits,
        framing: Framing,
        buffer: Callable[[int], Buffer] | None,
    ) -> Iterator[EncodedMessages]:
        """Messages of ``rows.refs[order]``, in batches.

        ``buffer(room)`` gives the array of at least ``room`` bytes for the next batch, which is the
        caller's from then on; without it one array serves all. Raises ``MessageTooLarge`` at the
        first message over the limit, after the batches before it.
        """

    def watermark(self, ts: Ts, build_ms: int) -> Message | None:
        """The message that all at or below ``ts`` was sent; ``None`` where the format has none."""

    def schema_change(
        self, change: SchemaChange, tables: Collection[TableName], build_ms: int
    ) -> Message | None:
        """A schema change, for a topic that holds ``tables`` of those that it touches.

        ``None`` where the format has none.
        """
