"""What a verification found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from cdc.base.errors import InvalidError
from cdc.verify.repair import RowsToRepair

_SHOWN_CHARS = 120


class ComparisonVerdict(StrEnum):
    """What is said of a table.

    ``unsettled``: rows differed each time but never stood still, or the parts of their table have
    moved while they were read, so nothing is proven. ``behind``: the changefeed has not delivered
    all of it and does not go on. ``skipped``: it cannot be compared at all. Only ``equal`` is good.
    """

    WAITING = "waiting"
    RUNNING = "running"
    EQUAL = "equal"
    DIFFERENT = "different"
    UNSETTLED = "unsettled"
    BEHIND = "behind"
    SKIPPED = "skipped"
    FAILED = "failed"
    STOPPED = "stopped"


class RowKind(StrEnum):
    """How a row differs: at both sides, at one side only, or by how often it is there."""

    CHANGED = "changed"
    MISSING = "missing"
    EXTRA = "extra"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """A value on both sides, shortened; None is NULL, or that there is no row."""

    column: str
    upstream: str | None
    target: str | None


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row that differs: its key (the whole row if it has none) and the values that do.

    ``upstream`` and ``target``: how often the row is there.
    """

    kind: RowKind
    key: dict[str, str | None]
    values: tuple[ValueDifference, ...] = ()
    upstream: int = 1
    target: int = 1


@dataclass
class TableResult:
    """One table. ``exact``: nothing was written to it while it was compared.

    ``different`` counts rows; ``more`` says that others differ, too, which were not counted.
    ``unseen``: rows that a topic says nothing about. ``structure``: how the definitions differ.
    ``done`` and ``rows`` are for progress: rows compared, and rows expected. ``repair``: those of
    ``different`` that can be brought again.
    """

    table: str
    verdict: ComparisonVerdict = ComparisonVerdict.WAITING
    exact: bool = True
    rows: int = 0
    done: int = 0
    upstream_rows: int = 0
    target_rows: int = 0
    different: int = 0
    unsettled: int = 0
    unseen: int = 0
    more: bool = False
    differences: list[RowDifference] = field(default_factory=list)
    structure: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    repair: RowsToRepair | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON; of what can be repaired how many rows that are."""
        repair = self.repair
        counts = {"rows": repair.rows, "target_only": len(repair.target_only)} if repair else None
        return asdict(replace(self, repair=None)) | {"repair": counts}

    def judge(self) -> None:
        """Set the verdict from what was counted."""
        if self.different or self.structure:
            self.verdict = ComparisonVerdict.DIFFERENT
        else:
            self.verdict = (
                ComparisonVerdict.UNSETTLED if self.unsettled else ComparisonVerdict.EQUAL
            )

    def prove_nothing(self, why: str) -> None:
        """Take back what was found: it may have come of how it was read."""
        self.verdict = ComparisonVerdict.UNSETTLED
        self.different, self.unseen, self.more, self.repair = 0, 0, False, None
        self.differences, self.structure = [], []
        self.notes = [*self.notes, why]


class Stopped(InvalidError):
    """The verification was told to stop."""

    code = "TG:ErrVerifyStopped"


def short(value: object) -> str | None:
    """A value as it is printed."""
    if value is None:
        return None
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
