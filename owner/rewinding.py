"""Going back to where the sink's ledger stands, which has lost what was acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc.base.errors import InvalidError
from cdc.base.position import Position, Stand, stand
from cdc.base.ts import Ts
from cdc.coord.acknowledgements import behind
from cdc.coord.messages import FeedStatus
from sink.contract import Destination


class RewindRefused(InvalidError):
    """The sink's ledger has not gone back, or nothing is left of it to go on from."""

    code = "TG:ErrRewindRefused"


def lost_stands(
    feed: str,
    known: Mapping[Destination, Position],
    ledger: Mapping[Destination, Position],
    start_ts: Ts,
) -> list[Stand]:
    """Where those destinations stand whose ledger has gone back; one without an entry at the start.

    ``known`` was acknowledged. Raises RewindRefused if none has gone back, or nothing is left.
    """
    lost = behind(known, ledger)
    if not lost or not ledger:
        raise RewindRefused(
            "the sink's ledger has all that was acknowledged"
            if ledger
            else "the sink's ledger knows nothing of the changefeed",
            object=f"changefeed {feed}",
            hint="resume without --rewind" if ledger else "resume with --overwrite-checkpoint-ts",
        )
    return [stand(ledger.get(d, Position(start_ts))) for d in lost]


def rewound(status: FeedStatus, stands: Sequence[Stand]) -> FeedStatus:
    """The progress of a changefeed where destinations stand no higher than ``stands``."""
    main = min(status.main_ts or status.checkpoint_ts, *(s.resolved() for s in stands))
    names = status.tables.keys() | {table for s in stands for table in s.held}
    tables = {}
    for name in names:
        at = min(status.tables.get(name, main), *(s.of(name).resolved() for s in stands))
        if at < main:
            tables[name] = at
    least = min([main, *tables.values()])
    transactions = dict(status.transactions)
    for one in stands:
        transactions |= {ts: name.to_list() for ts, name in one.transactions.items()}
    return FeedStatus(
        checkpoint_ts=least,
        resolved_ts=status.resolved_ts,
        main_ts=main,
        tables=tables,
        transactions={
            ts: transactions[ts] for ts in {main, *tables.values()} if ts in transactions
        },
    )
