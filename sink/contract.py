"""What a processor needs of any sink; the sinks' own words stay behind it.

A sink has two sides. The **driver** side lives in the capture: it verifies, makes destinations and
recovers. The **worker** side lives in a Spark Python worker: it delivers windows. They share only
the ledger, which the sink keeps where the data is.

A destination is what must stay in order: ``(name, number)``, for Kafka topic and partition. A
payload is in the sink's own form, made by the encoder that belongs to the sink (for Kafka: the
records region of a batch), and opaque to the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from cdc.base.position import Position
from cdc.schema.table import Table
from sink.dispatch.rules import Router

Destination = tuple[str, int]


class SinkDriver(Protocol):
    """Driver side, one for each changefeed and recovery."""

    @property
    def wants_watermarks(self) -> bool:
        """Whether destinations are told how far they are complete."""

    def verify(self, tables: Iterable[Table]) -> None:
        """Check, without delivering, that all that these tables need is there and allowed.

        Raises one error, with one hint, for the first thing that is missing.
        """

    def router(self, partitions: Mapping[str, int] | None = None) -> Router:
        """Which destination a table's rows go to; partition counts are needed for routes."""

    def ensure(self, names: Iterable[str]) -> Mapping[str, int]:
        """Make sure that the named targets exist; how many numbers each has."""

    def destinations(self) -> tuple[Destination, ...]:
        """All destinations of what was ensured."""

    def recover(self, feed: str, epoch: int, slots: int) -> Mapping[Destination, Position]:
        """Fence every earlier worker, then read what is delivered. ``{}`` without a ledger.

        A running changefeed takes a new, larger epoch for each recovery.
        """

    def delivered(self, feed: str) -> Mapping[Destination, Position]:
        """What the ledger says, without taking the changefeed over. ``{}`` without a ledger."""

    def forget(self, feed: str, slots: int) -> None:
        """The changefeed is removed: fence its workers and clear its ledger."""


class Deliverer(Protocol):
    """Worker side: ``begin``, ``send`` …, ``commit``, and again; any error ends the object."""

    def message_limit(self, name: str) -> int:
        """Largest payload of one message, in bytes."""

    def batch_limit(self, name: str) -> int:
        """Largest payload of one ``send``, in bytes, unless it is a single message."""

    def begin(self) -> None:
        """Start a window."""

    def send(
        self,
        name: str,
        number: int,
        payload: bytes | bytearray | memoryview,
        count: int,
        first_ms: int,
        max_ms: int,
        /,
        *,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Queue ``count`` messages for one destination, in order.

        The buffer belongs to the sink until ``done`` is called, from any thread, or the window
        ends. Waits while too much is on its way.
        """

    def send_small(self, name: str, number: int, value: bytes, at_ms: int, /) -> None:
        """Queue one message that no kernel framed: a watermark, a DDL."""

    def commit(self, ledger: Mapping[Destination, Position]) -> None:
        """Make everything sent since ``begin`` durable, atomically with its new positions."""

    def abort(self) -> None:
        """Give the window up and end the object."""

    def close(self) -> None:
        """End the object."""
