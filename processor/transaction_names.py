"""What the upstream calls the transactions at which a changefeed stands.

A ts is only our name for a transaction: another log of the same upstream may give it another one.
So ledgers and progress name for each ts of a position the last transaction at or below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cdc.base.position import Position, TransactionName, stand
from cdc.base.ts import Ts
from cdc.changelog.origin import Origin
from cdc.changelog.reader import ChangeLog
from processor.standing import Standing


class TransactionNames:
    """The names of one log's transactions, as a changefeed needs them.

    ``known``: those of positions that were named before; a log that retention has emptied below
    them cannot be asked any more.
    """

    def __init__(self, log: ChangeLog, known: Mapping[Ts, TransactionName]) -> None:
        self._log = log
        self._known = dict(known)

    def take(self, stands: Iterable[Position]) -> None:
        """Remember the names that ledgers have."""
        for one in stands:
            self._known |= stand(one).transactions

    def names(self, standing: Standing) -> dict[Ts, TransactionName]:
        """For each ts at which a table stands; a ts below all that the log holds has none."""
        positions = [standing.main, *standing.tables.values()]
        wanted = {ts for at in positions for ts in (at.ts, at.resolved())}
        found = {ts: name for ts in sorted(wanted) if (name := self._name(ts)) is not None}
        self._known = found
        return found

    def _name(self, ts: Ts) -> TransactionName | None:
        known = self._known.get(ts)
        if known is not None or ts > self._log.state.resolved_ts:
            return known
        # Where nothing has come in the segments that are left it is the one named last before.
        below = (name for at, name in self._known.items() if at <= ts)
        found = self._log.transaction_at(ts)
        # A log that was made anew holds nothing of what lies below its begin.
        return found if found and not found.is_none else max(below, default=found)


def strangers(
    stands: Iterable[Position], log: ChangeLog, origin: Origin | None
) -> list[tuple[Ts, TransactionName]]:
    """Positions that do not lie in this log where their ts says."""
    named = {pair for one in stands for pair in stand(one).transactions.items()}
    return [pair for pair in sorted(named) if not _lies(*pair, log, origin)]


def _lies(ts: Ts, name: TransactionName, log: ChangeLog, origin: Origin | None) -> bool:
    if ts <= log.state.resolved_ts:
        found = log.transaction_at(ts)
        if found is None or found.is_none:
            return name.ts <= log.state.first_ts
        if name.is_none:
            return found.ts <= name.ts
        # What an earlier version wrote does not say where each of the shards stood.
        cuts_agree = not name.cut or not found.cut or name.cut == found.cut
        return found.same(name) and found.ts == name.ts and cuts_agree
    return origin is not None and origin.holds(ts, name, log.state.first_ts)
