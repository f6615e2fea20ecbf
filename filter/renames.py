"""What a rename means where table rules match only one of the two names.

========== ========== ==========================================================================
old name   new name   the rename
========== ========== ==========================================================================
matches    matches    is delivered
matches    does not   is delivered; rows under the new name are not, and that is reported
does not   matches    is an error: the target has no such table, and its rows are not there
does not   does not   is ignored
========== ========== ==========================================================================

A statement of several steps is judged by where each table ends, so that names may be swapped
through a third one. The same holds for EXCHANGE and CONVERT PARTITION, which move rows between two
tables: both must match, or neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cdc.base.errors import DefiniteError

Name = tuple[str, str]
Matches = Callable[[str, str], bool]


class RenameIntoFilter(DefiniteError):
    """A table came under the rules by a rename; its rows before that were never delivered."""

    code = "TG:ErrSyncRenameTableFailed"


class RowsCrossFilter(DefiniteError):
    """Rows moved between a table that the rules match and one that they do not."""

    code = "TG:ErrPartitionCrossesFilter"


class RenameAction(StrEnum):
    """What is done with a DDL."""

    DELIVER = "deliver"
    IGNORE = "ignore"
    ERROR = "error"


def action(old_matches: bool, new_matches: bool) -> RenameAction:
    """The table above."""
    if old_matches:
        return RenameAction.DELIVER
    return RenameAction.ERROR if new_matches else RenameAction.IGNORE


@dataclass(frozen=True, slots=True)
class Renames:
    """A judged statement.

    ``steps`` are those to deliver, in order: those of tables whose old name matches. ``left`` are
    tables (old, new) that leave the rules with it. ``error`` is set if nothing may be delivered.
    """

    action: RenameAction
    steps: tuple[tuple[Name, Name], ...] = ()
    left: tuple[tuple[Name, Name], ...] = ()
    error: DefiniteError | None = None


def judge(steps: Sequence[tuple[Name, Name]], matches: Matches) -> Renames:
    """The steps of one RENAME TABLE, or the one of ALTER TABLE … RENAME, in order."""
    at: dict[Name, Name] = {}
    origins = []
    for old, new in steps:
        origin = at.pop(old, old)
        at[new] = origin
        origins.append(origin)
    ends = {origin: end for end, origin in at.items()}
    kept, left = [], []
    for origin, end in ends.items():
        verdict = action(matches(*origin), matches(*end))
        if verdict is RenameAction.ERROR:
            return Renames(RenameAction.ERROR, error=_into(origin, end))
        if verdict is RenameAction.DELIVER and not matches(*end):
            left.append((origin, end))
    kept = [step for step, origin in zip(steps, origins, strict=True) if matches(*origin)]
    if not kept:
        return Renames(RenameAction.IGNORE)
    return Renames(RenameAction.DELIVER, tuple(kept), tuple(left))


def judge_moves(moves: Sequence[tuple[Name, Name]], matches: Matches) -> DefiniteError | None:
    """The error of a statement that moves rows across the rules, or None."""
    for one, other in moves:
        if matches(*one) is not matches(*other):
            inside, outside = (one, other) if matches(*one) else (other, one)
            return RowsCrossFilter(
                f"its rows went to or came from {_text(outside)}, which filter.rules do not match",
                object=_text(inside),
                hint=f"let filter.rules match {_text(outside)} too, and create the changefeed anew",
            )
    return None


def _into(old: Name, new: Name) -> RenameIntoFilter:
    return RenameIntoFilter(
        f"was renamed from {_text(old)}, which filter.rules do not match: the target has no such "
        "table",
        object=_text(new),
        hint=f"let filter.rules match {_text(old)} too, or exclude {_text(new)}",
    )


def _text(name: Name) -> str:
    return f"{name[0]}.{name[1]}"
