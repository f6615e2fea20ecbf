"""What a log's writer remembers: where it can go back to, and what one commit makes durable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdc.changelog.index import Runs
from cdc.changelog.order import OrderState
from cdc.changelog.prepared import PreparedBook
from cdc.changelog.segment_file import SegmentFile
from cdc.changelog.state import LogState, SegmentInfo


@dataclass(frozen=True, slots=True)
class AppendMark:
    """What was appended behind complete transactions; all that :meth:`LogWriter.rollback` needs."""

    info: SegmentInfo | None
    format: bytes
    pending: tuple[Runs, ...]
    closing: tuple[SegmentInfo, ...]
    book: PreparedBook
    order: OrderState


@dataclass(frozen=True, slots=True)
class Commit:
    """A group commit as it was when it began; what is appended after that is not part of it."""

    syncs: list[Callable[[], None]]
    before: LogState
    after: LogState
    base: bool
    full: list[SegmentFile]
