"""What this version says in Kafka's ledger is read by those that follow, which say it as it is.

``ledger.json`` does not change: words that come are others, and older versions pass them over.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdc.base.ids import FeedId
from cdc.base.position import LastOfNode, Position, Stand, TransactionName
from sink.kafka.ledger import epoch_records, fold, partition_records, position_records
from sink.kafka.records import SmallRecord

KEPT: dict[str, list[list[Any]]] = json.loads(Path(__file__).with_name("ledger.json").read_text())
FEED = FeedId("5f1c2d3e4f50617283940a1b2c3d4e5f", "orders é", 2)
CUT = (LastOfNode("n1:0-1", 12, True), LastOfNode("n2:0-7", 41, False))
WHOLE = Stand(500, transactions={500: TransactionName(490, "0-1", 7, 3)})
PART = Stand(
    600,
    12,
    held={"shop.orders": Position(550, 3)},
    transactions={
        600: TransactionName(600, "n2:0-7", 41, 2, CUT),
        599: TransactionName(590, "", 4711, 2),
        549: TransactionName(540, "0-1", 6, 2),
    },
)


def _written() -> dict[str, list[SmallRecord]]:
    positions = {("shop", 0): WHOLE, ("shop", 3): PART}
    return {
        "epoch": epoch_records(FEED, 7, [5, 6], 8, delivers=True),
        "position": position_records(FEED, 7, positions),
        "partitions": partition_records(FEED, 7, {"shop": 4}, [("shop", 6)]),
    }


@pytest.mark.parametrize("what", ["epoch", "position", "partitions"])
def test_records_are_written_as_the_first_version_wrote_them(what: str) -> None:
    assert [[_text(r.key), _text(r.value)] for r in _written()[what]] == KEPT[what]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def test_records_of_the_first_version_mean_the_same() -> None:
    records = [
        (key.encode(), None if value is None else value.encode())
        for key, value in (pair for pairs in KEPT.values() for pair in pairs)
    ]
    read = fold(FEED, [*records, (b'["of_newer","x"]', b"{}")])
    assert (read.epochs, read.slots, read.delivers) == ({7}, 8, True)
    assert read.counts == {("shop", 7): 4}
    assert read.positions == {("shop", 0): WHOLE, ("shop", 3): PART}
    for place, wanted in (("shop", 0), WHOLE), (("shop", 3), PART):
        at = read.positions[place]
        assert isinstance(at, Stand)
        assert (at.row, at.held, at.transactions) == (wanted.row, wanted.held, wanted.transactions)
