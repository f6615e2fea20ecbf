"""Whether a log may go on to grow: a decision over values."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.base.errors import TidegateError
from cdc.changelog.errors import DiskBudgetSpent, TransactionTooLarge
from cdc.changelog.settings import ChangelogSettings


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes of a log and of its disk.

    ``committed``: of all segments, indexes and the dictionary. ``staying``: of the segment that is
    written, which no collection removes. ``appended``: not yet committed; ``open``: those of them
    that belong to a transaction whose end has not come. ``free``: what the disk has left.
    """

    committed: int
    staying: int
    appended: int
    open: int
    free: int


def judge(usage: Usage, settings: ChangelogSettings, name: str) -> TidegateError | None:
    """The error to stop pulling with, else None.

    DiskBudgetSpent passes once changefeeds move on and segments go. A transaction of up to a
    segment may always end, a budget notwithstanding; a larger one waits for others to go, and is
    a definite error, TransactionTooLarge, where it would not fit into an otherwise empty log.
    What a full segment that is written has over the budget never goes while nothing is pulled, as
    another one is only begun by what comes next: that may come if all else is within the budget.
    Transactions that are complete count once they are committed: before, they cannot go either.
    """
    budget, reserve = settings.disk_budget_bytes, settings.free_space_reserve_bytes
    used = usage.committed + usage.appended
    small = 0 < usage.open <= settings.segment_bytes
    turns = not usage.open and usage.staying >= settings.segment_bytes
    counted = usage.committed + usage.open - (usage.staying if turns else 0)
    if budget and counted > budget and not small:
        if usage.open and usage.open + usage.staying > budget:
            return TransactionTooLarge(
                f"a transaction has more than {usage.open} bytes, the log's budget is {budget}",
                object=name,
                hint="raise changelog.disk-budget-bytes",
            )
        why = f"the log has {used} bytes, its budget is {budget}"
    elif usage.free < reserve:
        why = f"the disk has {usage.free} bytes left, {reserve} are reserved"
    else:
        return None
    if usage.open:
        why += f"; {usage.open} bytes are of a transaction that has not ended"
    return DiskBudgetSpent(
        why,
        object=name,
        hint="let changefeeds catch up or remove one, shorten keep_s, or give more disk",
    )
