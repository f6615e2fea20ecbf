"""Names of transactions lie in ledgers and in the store, in what versions have written."""

from __future__ import annotations

import json

from cdc.base.position import LastOfNode, Stand, TransactionName


def test_a_name_of_before_cuts_is_read_and_written_as_it_was() -> None:
    written = [471, "0-1", 7, 3]
    name = TransactionName.of(written)
    assert name == TransactionName(471, "0-1", 7, 3)
    assert name.to_list() == written
    kept = {"shop.t": [471, 2], "transactions": {"471": written}}
    stand = Stand.from_json(480, 1, json.loads(json.dumps(kept)))
    assert stand.transactions == {471: name}


def test_a_name_keeps_its_cut() -> None:
    cut = (LastOfNode("n1:0-1", 7), LastOfNode("n2:0-2", 9, True))
    name = TransactionName(471, "n1:0-1", 7, 3, cut)
    assert TransactionName.of(json.loads(json.dumps(name.to_list()))) == name
