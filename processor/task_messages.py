"""What the driver sends to a task and what comes back: references, never rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc.base.ids import FeedId
from cdc.base.position import Position, Stand, TransactionName
from cdc.base.ts import Ts
from cdc.changelog.remote.access import LogAccess
from cdc.snapshot.log import SnapshotRows
from processor.catalog import Span
from sink.contract import Destination, Layout


@dataclass(frozen=True)
class FeedPlan:
    """What does not change from window to window; a worker keeps what it builds from it.

    ``epoch`` is the ledger's: it grows with every recovery. ``sink_uri`` may hold a password and
    is never shown. ``rows``: those of a snapshot that come before the log's. All
    folders are the capture's: a worker that does not see them has an ``access``.
    ``log``: the log's id, as another one may take its place in the same folder. ``repeatable``: the
    target may have rows that are inserted, and lack those that are changed.
    """

    feed: FeedId
    epoch: int
    log_folder: str
    start_ts: Ts
    sink_uri: str = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)
    slots: int
    run_folder: str
    layout: Layout
    rows: SnapshotRows | None = None
    access: LogAccess | None = None
    log: str = ""
    repeatable: bool = False


@dataclass(frozen=True)
class Descriptor:
    """One task: deliver ``(lo, hi]`` to ``destinations``, each from its own start.

    ``starts`` holds only destinations that the ledger found ahead of that. ``spans`` are tables
    (lower-case ``schema.table``) of which something else is delivered than ``(lo, hi]``; ``held``
    those that will stand below ``hi`` behind the window, and where. ``acknowledged``: what
    destinations have at least; a ledger below that has gone back. ``watermark``: announce that
    everything at or below it has been sent. ``at_once``: more bytes than these were too much for
    the sink, so no more are to be on their way at a time. ``transactions``: names for the ts of
    ``hi`` and ``held``. ``anywhere``: whether a worker opens the sink for it that has not yet.
    ``log_bytes``: how much of the log it is about. ``capture``: whose workers are to deliver it;
    any if "".
    """

    plan: FeedPlan
    lo: Position
    hi: Position
    destinations: tuple[Destination, ...]
    starts: Mapping[Destination, Stand] = field(default_factory=dict)
    spans: Mapping[str, Span] = field(default_factory=dict)
    held: Mapping[str, Position] = field(default_factory=dict)
    watermark: Ts | None = None
    acknowledged: Mapping[Destination, Position] = field(default_factory=dict)
    at_once: int | None = None
    transactions: Mapping[Ts, TransactionName] = field(default_factory=dict)
    anywhere: bool = True
    log_bytes: int = 0
    capture: str = ""


@dataclass(frozen=True)
class Ack:
    """What a task did. ``error`` is a ``TidegateError`` as its ``to_dict``, if it failed.

    ``reached``: the positions that it has committed. ``bytes``, ``sent_bytes`` and ``requests`` are
    those of ``sink.contract.Sent``; ``filtered``: rows that value filters have left out.
    ``began_ns`` is of the worker's clock, ``parts`` are seconds of what followed one another.

    ``table``: the one table (``schema.table``) that a definite error is about, if it is. ``left``:
    nothing was done, and another worker has the sink open.
    """

    destinations: tuple[Destination, ...]
    rows: int = 0
    bytes: int = 0
    log_bytes: int = 0
    sent_bytes: int = 0
    requests: int = 0
    filtered: int = 0
    began_ns: int = 0
    seconds: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    reached: Mapping[Destination, Position] = field(default_factory=dict)
    error: dict[str, str] | None = None
    table: str | None = None
    left: bool = False
