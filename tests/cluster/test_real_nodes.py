"""A distributed database of stock servers, pulled and merged: nothing torn, nothing misplaced."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.cluster import ClusterMerge, ClusterStand
from cdc.merge.errors import MergeBranchMissing
from tests import seeds
from tests.cluster.conftest import NAMES, Recorded, coordinator_with, merged
from tests.cluster.reading import Books, items_of
from tests.merge import slow
from tests.merge.bank import judge, parts_of


def test_each_transaction_is_whole_and_in_its_place(recorded: Recorded) -> None:
    order = merged(recorded.first)
    books = Books(recorded.cluster, recorded.folders)
    verdict = judge(books, order)
    journal = recorded.cluster.journal
    assert verdict.right, verdict
    # All of the journal, with its TSOs and nodes, but the first heartbeat and the last.
    found = {p[0][3]: (p[0][2], sorted(q[0] for q in p)) for p in order if p[0][4] == 0}
    expected = {t: (tso, sorted(nodes)) for t, (tso, nodes) in journal.distributed.items()}
    missing = expected.keys() - found.keys()
    assert missing == {min(journal.heartbeats), max(journal.heartbeats)}
    assert found == {t: v for t, v in expected.items() if t not in missing}
    assert len(found) > 200
    assert journal.rolled_back
    # Servers do commit out of the order of their TSOs.
    for items in recorded.first:
        tsos = items[(items[:, K.KIND] == K.COMMITTED) & (items[:, K.TSO] > 0), K.TSO]
        assert np.count_nonzero(np.diff(tsos) < 0) > len(tsos) / 50


def test_transactions_of_one_node_are_all_there(recorded: Recorded) -> None:
    logged = Counter(
        node for _, nodes in recorded.cluster.journal.distributed.values() for node in nodes
    )
    local: Counter[int] = Counter()
    for parts in merged(recorded.first):
        if parts[0][4] > 0:
            local[parts[0][0]] += 1
    for node, count in recorded.cluster.journal.local.items():
        # Rows of the commit log are transactions too; the first heartbeat's and the last's are not
        # in the order, and the recovery may have written some again, in vain.
        assert count <= local[node] - logged[node] + 4 <= count + 8


def test_carriers_agree(recorded: Recorded) -> None:
    by_row = recorded.items["commit-log"]
    for node, items in enumerate(recorded.first):
        same = items.copy()
        same[:, K.BRANCHES] = by_row[node][:, K.BRANCHES]
        np.testing.assert_array_equal(same, by_row[node])
    assert merged(by_row) == merged(recorded.first)
    # MySQL has it a third time.
    original = items_of(recorded.folders[2], "n3", coordinator_with("original-timestamp"))
    np.testing.assert_array_equal(original, recorded.first[2])


def test_branches_are_counted(recorded: Recorded) -> None:
    items = list(recorded.items["commit-log"])
    beats = recorded.cluster.journal.heartbeats
    log = items[1]
    distributed = (log[:, K.KIND] == K.COMMITTED) & (log[:, K.TSO] != 0)
    commits = np.flatnonzero(distributed & ~np.isin(log[:, K.TXN], list(beats)))
    lost = int(commits[len(commits) // 2])
    prepare = np.flatnonzero((log[:, K.KIND] == K.PREPARED) & (log[:, K.KEY] == log[lost, K.KEY]))
    items[1] = np.delete(log, [int(prepare[-1]), lost], axis=0)
    with pytest.raises(MergeBranchMissing, match=f"{log[lost, K.TXN]:x}"):
        merged(items)


@pytest.mark.parametrize(
    "off",
    [slow.Switches(sort=False), slow.Switches(holes=False), slow.Switches(wait=False)],
    ids=["sort off", "holes ignored", "heartbeats ignored"],
)
def test_what_is_left_out_is_seen(recorded: Recorded, off: slow.Switches) -> None:
    books = Books(recorded.cluster, recorded.folders)
    verdict = judge(books, slow.merge(recorded.first, off))
    assert verdict.torn or verdict.wrong_sums


def test_a_restart_at_any_commit_gives_the_same(recorded: Recorded) -> None:
    chosen = random.Random(seeds.seed())
    expected = merged(recorded.first)
    logs = recorded.first
    ends = sorted(chosen.randrange(len(logs[0])) for _ in range(60))
    for end in ends:
        share = end / len(logs[0])
        cuts = [min(len(g), max(0, int(share * len(g)) + chosen.randrange(-30, 30))) for g in logs]
        begun = ClusterMerge.begin(NAMES, ClusterStand.first(3))
        merge, before = begun.step([g[:c] for g, c in zip(logs, cuts, strict=True)])
        stand = ClusterStand.of(merge.stand().to_dict())
        left = [g[g[:, K.NUMBER] >= node.number] for g, node in zip(logs, stand.nodes, strict=True)]
        _, after = ClusterMerge.begin(NAMES, stand).step(left)
        assert parts_of([before, after]) == expected


def test_how_a_log_is_read_does_not_matter(recorded: Recorded) -> None:
    for node, folder in enumerate(recorded.folders):
        for carrier, whole in recorded.items.items():
            pieces = items_of(folder, NAMES[node], coordinator_with(carrier), cut=7)
            np.testing.assert_array_equal(pieces, whole[node])
