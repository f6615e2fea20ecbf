"""ignore-txn-start-ts and ignore-txn-gtid over the runs of a log."""

from __future__ import annotations

import pytest

from cdc.base.errors import InvalidError
from cdc.changelog.index import RunKind, Runs
from cdc.coord.feed_config import FilterConfig
from filter.transactions import Transactions

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SOURCES = {0: UUID, 1: "0-7", 2: f"{UUID}:app"}


def of(ts: list[int] | None = None, gtid: list[str] | None = None) -> Transactions:
    return Transactions.of(FilterConfig(ignore_txn_start_ts=ts or [], ignore_txn_gtid=gtid or []))


def runs() -> Runs:
    kinds = [RunKind.DML, RunKind.DML, RunKind.DDL, RunKind.MARK, RunKind.DML, RunKind.DML]
    return Runs.build(
        6,
        commit_ts=[10, 10, 20, 20, 30, 40],
        kind=kinds,
        gtid_source=[0, 0, 1, 1, 1, -1],
        gtid_seq=[5, 5, 5, 5, 6, -1],
    )


@pytest.mark.parametrize(
    ("transactions", "left"),
    [
        (of(), [0, 1, 2, 3, 4, 5]),
        (of([10]), [2, 3, 4, 5]),
        (of([20, 40]), [0, 1, 3, 4]),
        (of(gtid=[f"{UUID.upper()}:5"]), [2, 3, 4, 5]),
        (of(gtid=[f"{UUID}:1-4:6-9"]), [0, 1, 2, 3, 4, 5]),
        (of(gtid=[f"{UUID}:1-9", "0-7-6"]), [2, 3, 5]),
        (of(gtid=["0-8-5", f"{UUID}:app:5"]), [0, 1, 2, 3, 4, 5]),
        (of([30], ["0-7-5"]), [0, 1, 3, 5]),
    ],
)
def test_whole_transactions_go(transactions: Transactions, left: list[int]) -> None:
    assert list(transactions.keep(runs(), SOURCES).nonzero()[0]) == left


def test_why() -> None:
    found = of([10], ["0-7-6", f"{UUID}:app:5"])
    assert found
    assert not of()
    assert "10" in found.ignores(10, "", -1)
    assert found.ignores(1, "0-7", 6) == "ignore-txn-gtid has 0-7-6"
    assert found.ignores(1, f"{UUID}:app", 5) == f"ignore-txn-gtid has {UUID}:app:5"
    assert not found.ignores(1, UUID, 5)
    assert not found.ignores(1, "", -1)


@pytest.mark.parametrize(
    ("ts", "gtid", "place"),
    [
        ([5, 0], [], "filter.ignore-txn-start-ts[1]"),
        ([1 << 63], [], "filter.ignore-txn-start-ts[0]"),
        ([], ["0-1"], "filter.ignore-txn-gtid[0]"),
        ([], ["0-1-1", "x:1"], "filter.ignore-txn-gtid[1]"),
        ([], [f"{UUID}:9-3"], "filter.ignore-txn-gtid[0]"),
        ([], [""], "filter.ignore-txn-gtid[0]"),
    ],
)
def test_what_names_no_transaction_is_refused(ts: list[int], gtid: list[str], place: str) -> None:
    with pytest.raises(InvalidError) as e:
        of(ts, gtid)
    assert (e.value.code, e.value.object) == ("TG:ErrIgnoreTxnInvalid", place)
    assert e.value.hint
