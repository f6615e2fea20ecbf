"""The order of a made-up cluster: whole transactions, the same however it is cut or restarted."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from cdc.base.vtso import VTso, ts_of
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.cluster import ClusterMerge, ClusterStand, Merged
from cdc.merge.errors import (
    MergeBranchMissing,
    MergeDisorder,
    MergeHeartbeatIncomplete,
    MergeXaBroken,
)
from tests import seeds
from tests.merge import slow
from tests.merge.bank import Bank, judge, parts_of

SEEDS = [seeds.seed() + i for i in range(12)]


def _names(nodes: int) -> list[str]:
    return [f"n{i + 1}" for i in range(nodes)]


def _begin(nodes: int) -> ClusterMerge:
    return ClusterMerge.begin(_names(nodes), ClusterStand.first(nodes))


def _whole(bank: Bank) -> list[Merged]:
    merge, merged = _begin(bank.nodes).step(bank.all_items())
    assert merge.aligned
    return [merged]


def _from(stand: ClusterStand, logs: list[np.ndarray]) -> list[np.ndarray]:
    """What is read of each node again."""
    pairs = zip(logs, stand.nodes, strict=True)
    return [log[log[:, K.NUMBER] >= node.number] for log, node in pairs]


@pytest.mark.parametrize("seed", SEEDS)
def test_order_is_right_and_that_of_the_slow_twin(seed: int) -> None:
    for nodes in (1, 2, 3, 7):
        bank = Bank(nodes, seed).run(1200)
        order = parts_of(_whole(bank))
        verdict = judge(bank, order)
        assert verdict.right, verdict
        assert verdict.distributed > 50
        assert order == slow.merge(bank.all_items())
        assert len(order) == len({(p[0][0], p[0][1]) for p in order})


@pytest.mark.parametrize("seed", SEEDS)
def test_cuts_do_not_matter(seed: int) -> None:
    chosen = random.Random(seed)
    bank = Bank(3, seed).run(600)
    expected = parts_of(_whole(bank))
    merge, pieces, at = _begin(3), [], [0, 0, 0]
    logs = bank.all_items()
    while any(a < len(log) for a, log in zip(at, logs, strict=True)):
        ends = [a + chosen.choice((0, 0, 1, 2, 40)) for a in at]
        items = [log[a:b] for log, a, b in zip(logs, at, ends, strict=True)]
        merge, merged = merge.step(items)
        pieces.append(merged)
        at = [min(b, len(log)) for b, log in zip(ends, logs, strict=True)]
        for node in merge.nodes:
            assert node.waiting <= len(node.queue)
    assert parts_of(pieces) == expected


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_a_restart_at_any_item_gives_the_same(seed: int) -> None:
    """Only the stand is kept: nodes are read again from there (Th4)."""
    chosen = random.Random(seed)
    bank = Bank(3, seed).run(250)
    logs = bank.all_items()
    expected = parts_of(_whole(bank))
    for count in range(1, max(map(len, logs))):
        ends = [min(len(log), max(0, count + chosen.randrange(-9, 9))) for log in logs]
        merge, before = _begin(3).step([log[:b] for log, b in zip(logs, ends, strict=True)])
        stand = ClusterStand.of(merge.stand().to_dict())
        again = _from(stand, logs)
        merge = ClusterMerge.begin(_names(3), stand)
        # And once more while it reads again, before it has seen anything new.
        middle = [len(log) // 3 for log in again]
        merge, between = merge.step([log[:m] for log, m in zip(again, middle, strict=True)])
        stand = merge.stand()
        _, after = ClusterMerge.begin(_names(3), stand).step(_from(stand, logs))
        assert parts_of([before, between, after]) == expected, (count, ends)


def _of_before(log: np.ndarray, first: int) -> list[int]:
    """Which items from one on are commits of what was prepared before it."""
    known, found = set(), []
    for at, (_, kind, key, *_) in enumerate(log[first:].tolist(), first):
        if kind == K.PREPARED:
            known.add(key)
        elif kind in (K.COMMITTED, K.ROLLED_BACK):
            if kind == K.COMMITTED and key not in known:
                found.append(at)
            known.discard(key)
    return found


def _log_anew(log: np.ndarray, first: int) -> np.ndarray:
    """Another log of a node, which begins at an item: its numbers and xids are its own.

    Of what was prepared before it, it has the commits that say when, and takes the others for
    ended.
    """
    left = log[first:].copy()
    without = [at - first for at in _of_before(log, first) if not log[at, K.TSO]]
    left[without, K.KIND] = K.ROLLED_BACK
    left[:, K.NUMBER] = 7 * np.arange(len(left)) + 2
    keys = left[:, K.KEY] >= 0
    left[keys, K.KEY] += 1000
    return left


def _amid(chosen: random.Random, log: np.ndarray, most: int) -> int:
    """An item not far before one: where most is prepared, of some."""
    drawn = [chosen.randrange(max(0, most - 60), most + 1) for _ in range(6)]
    return max(drawn, key=lambda first: len(_of_before(log, first)))


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_logs_that_begin_amid_prepared_transactions_give_the_same(seed: int) -> None:
    """Of a node, at any item up to its stand: what is prepared there was returned (Th4)."""
    chosen = random.Random(seed)
    bank = Bank(3, seed).run(800)
    logs = bank.all_items()
    expected = parts_of(_whole(bank))
    numbers = {node: log[:, K.NUMBER] for node, log in enumerate(logs)}
    of_anew: list[dict[int, int]] = [{} for _ in logs]
    passed_over = 0
    for count in range(20, max(map(len, logs)), 6):
        ends = [min(len(log), max(0, count + chosen.randrange(-9, 9))) for log in logs]
        merge, before = _begin(3).step([log[:b] for log, b in zip(logs, ends, strict=True)])
        if not merge.aligned:
            continue
        stand = merge.stand()
        at = [int(np.searchsorted(numbers[n], s.number)) for n, s in enumerate(stand.nodes)]
        firsts = [_amid(chosen, log, most) for log, most in zip(logs, at, strict=True)]
        passed_over += sum(
            len(_of_before(log, first)) for log, first in zip(logs, firsts, strict=True)
        )
        again = [_log_anew(log, first) for log, first in zip(logs, firsts, strict=True)]
        for n, (log, first) in enumerate(zip(logs, firsts, strict=True)):
            pairs = zip(again[n][:, K.NUMBER].tolist(), log[first:, K.NUMBER].tolist(), strict=True)
            of_anew[n] = dict(pairs)
        # A restart before all of what is passed over has come.
        merge = ClusterMerge.begin(_names(3), ClusterStand.of(stand.anew().to_dict()))
        middle = [chosen.randrange(len(log) + 1) for log in again]
        merge, between = merge.step([log[:m] for log, m in zip(again, middle, strict=True)])
        stand = ClusterStand.of(merge.stand().to_dict())
        _, after = ClusterMerge.begin(_names(3), stand).step(_from(stand, again))
        found = parts_of([before]) + [
            [(n, of_anew[n][number], *rest) for n, number, *rest in transaction]
            for transaction in parts_of([between, after])
        ]
        assert found == expected, (count, ends, firsts)
    assert passed_over > 10


def test_a_log_that_begins_behind_the_stand_is_refused() -> None:
    """Control: what is prepared there has not been returned, also where nobody counts branches."""
    bank = Bank(3, SEEDS[0], say_parts=False).run(1200)
    logs = bank.all_items()
    merge, _ = _begin(3).step([log[: len(log) // 2] for log in logs])
    stand, refused = merge.stand(), 0
    for node, log in enumerate(logs):
        at = int(np.searchsorted(log[:, K.NUMBER], stand.nodes[node].number))
        for first in range(at + 1, len(log) // 2):
            if any(log[i, K.TSO] >= max(1, stand.horizon) for i in _of_before(log, first)):
                again = [_log_anew(each, first if n == node else 0) for n, each in enumerate(logs)]
                with pytest.raises((MergeXaBroken, MergeHeartbeatIncomplete)):
                    ClusterMerge.begin(_names(3), stand.anew()).step(again)
                refused += 1
    assert refused


@pytest.mark.parametrize("seed", SEEDS[:4])
@pytest.mark.parametrize(
    "off",
    [slow.Switches(sort=False), slow.Switches(holes=False), slow.Switches(wait=False)],
    ids=["sort off", "holes ignored", "heartbeats ignored"],
)
def test_the_judge_sees_what_is_left_out(seed: int, off: slow.Switches) -> None:
    bank = Bank(3, seed).run(1200)
    expected = judge(bank, slow.merge(bank.all_items()))
    assert expected.right
    verdict = judge(bank, slow.merge(bank.all_items(), off))
    # Without a whole heartbeat near the beginning, what is in front of the first one is not there.
    assert not verdict.right or verdict.transactions < expected.transactions


def _without_a_part(bank: Bank, heartbeat: bool) -> tuple[list[np.ndarray], int]:
    """The logs without one branch of a transaction in the middle: its prepare and its commit."""
    logs = bank.all_items()
    log = logs[1]
    distributed = (log[:, K.KIND] == K.COMMITTED) & (log[:, K.TSO] > 0)
    flagged = (log[:, K.FLAGS] & K.HEARTBEAT) != 0
    shared = np.array([bank.parts.get((t, x), 0) > 1 for t, x in log[:, [K.TSO, K.TXN]].tolist()])
    which = np.flatnonzero(distributed & (flagged == heartbeat) & shared)
    commit = int(which[len(which) // 2])
    prepare = max(
        i
        for i in range(commit)
        if log[i, K.KIND] == K.PREPARED and log[i, K.KEY] == log[commit, K.KEY]
    )
    logs[1] = np.delete(log, [prepare, commit], axis=0)
    return logs, int(log[commit, K.TXN])


def test_a_missing_part_is_an_error_that_names_it() -> None:
    logs, txn = _without_a_part(Bank(3, SEEDS[0]).run(1200), heartbeat=False)
    with pytest.raises(MergeBranchMissing, match=f"transaction {txn:x} has "):
        _begin(3).step(logs)


def test_a_missing_part_of_which_nobody_said_the_number_is_seen_by_the_judge_only() -> None:
    bank = Bank(3, SEEDS[0], say_parts=False).run(1200)
    logs, _ = _without_a_part(bank, heartbeat=False)
    _, merged = _begin(3).step(logs)
    verdict = judge(bank, parts_of([merged]))
    assert verdict.torn == 1
    assert not verdict.right


def test_a_heartbeat_that_a_node_lacks_is_an_error_that_names_the_node() -> None:
    bank = Bank(3, SEEDS[0], say_parts=False).run(1200)
    logs, txn = _without_a_part(bank, heartbeat=True)
    with pytest.raises(MergeHeartbeatIncomplete, match=f"{txn:x} is not once .*not on n2"):
        _begin(3).step(logs)


def _item(number: int, kind: int, key: int = -1, tso: int = 0, txn: int = 0, **more: int):
    return [number, kind, key, tso, txn, more.get("flags", 0), more.get("parts", 0)]


def _log(*items: list[int]) -> np.ndarray:
    return np.array(items, np.int64)


BEAT = {"flags": K.HEARTBEAT}


def _one(*items: list[int]) -> list[tuple[int, ...]]:
    """Places of the transactions of a cluster of one node, behind its first heartbeat."""
    log = _log(
        _item(1, K.PREPARED, 0),
        _item(2, K.COMMITTED, 0, 1, 1, **BEAT),
        *items,
        _item(1001, K.PREPARED, 99),
        _item(1002, K.COMMITTED, 99, 999, 999, **BEAT),
    )
    _, merged = _begin(1).step([log])
    return [tuple(merged.vtso(i)) for i in range(len(merged))]


def test_a_commit_that_says_no_time_is_never_taken_for_one_of_before() -> None:
    stand = replace(ClusterStand.first(1), horizon=50, anew_below=50)
    for tso, taken in ((40, True), (0, False), (50, False), (60, False)):
        begun = ClusterMerge.begin(["n1"], stand)
        if taken:
            begun.step([_log(_item(1, K.COMMITTED, 7, tso, 6))])
        else:
            with pytest.raises(MergeXaBroken, match="n1"):
                begun.step([_log(_item(1, K.COMMITTED, 7, tso, 6))])


def test_an_open_hole_holds_back_and_a_closed_one_sorts() -> None:
    assert _one(
        _item(11, K.PREPARED, 1),
        _item(12, K.PREPARED, 2),
        _item(13, K.COMMITTED, 2, 30, 7),
        _item(14, K.LOCAL),
        _item(15, K.COMMITTED, 1, 20, 6),
        _item(16, K.LOCAL),
    ) == [(20, 6, 0, 0), (30, 7, 0, 0), (30, 7, 1, 1), (30, 7, 2, 1)]


def test_rolled_back_and_reused_xids() -> None:
    assert _one(
        _item(11, K.PREPARED, 1),
        _item(12, K.ROLLED_BACK, 1),
        _item(13, K.PREPARED, 1),
        _item(14, K.COMMITTED, 1, 20, 6),
        _item(15, K.PREPARED, 1),
        _item(16, K.COMMITTED, 1, 0, 8),
        _item(17, K.ROLLED_BACK, 5),
    ) == [(20, 6, 0, 0), (20, 6, 1, 1)]


def test_what_is_prepared_again_was_lost_and_holds_nobody() -> None:
    before = [_item(11, K.PREPARED, 1), _item(12, K.PREPARED, 2), _item(13, K.COMMITTED, 2, 20, 5)]
    later = [_item(16, K.PREPARED, 3), _item(17, K.COMMITTED, 3, 40, 7)]
    assert _one(*before, *later) == []
    rolled_back = [_item(14, K.PREPARED, 1), _item(15, K.ROLLED_BACK, 1)]
    assert _one(*before, *rolled_back, *later) == [(20, 5, 0, 0), (40, 7, 0, 0)]
    committed = [_item(14, K.PREPARED, 1), _item(15, K.COMMITTED, 1, 30, 6)]
    assert _one(*before, *committed, *later) == [(20, 5, 0, 0), (30, 6, 0, 0), (40, 7, 0, 0)]


def test_equal_timestamps_go_by_transaction() -> None:
    assert _one(
        _item(11, K.PREPARED, 1),
        _item(12, K.PREPARED, 2),
        _item(13, K.COMMITTED, 1, 20, 9),
        _item(14, K.COMMITTED, 2, 20, 5),
    ) == [(20, 5, 0, 0), (20, 9, 0, 0)]


@pytest.mark.parametrize(
    ("items", "error"),
    [
        ([_item(11, K.COMMITTED, 7, 20, 6)], MergeXaBroken),
        ([_item(11, K.LOCAL), _item(11, K.LOCAL)], MergeXaBroken),
        # The timestamp service went back.
        (
            [
                _item(11, K.PREPARED, 1),
                _item(12, K.COMMITTED, 1, 20, 6),
                _item(13, K.PREPARED, 2),
                _item(14, K.COMMITTED, 2, 19, 7),
            ],
            MergeDisorder,
        ),
        # Equal, and a local transaction between them may have touched the same rows.
        (
            [
                _item(11, K.PREPARED, 1),
                _item(12, K.COMMITTED, 1, 20, 6),
                _item(13, K.LOCAL),
                _item(14, K.PREPARED, 2),
                _item(15, K.COMMITTED, 2, 20, 5),
            ],
            MergeDisorder,
        ),
        (
            [
                _item(11, K.PREPARED, 1),
                _item(12, K.PREPARED, 2),
                _item(13, K.COMMITTED, 1, 20, 6, parts=2),
                _item(14, K.COMMITTED, 2, 20, 6, parts=3),
            ],
            MergeBranchMissing,
        ),
    ],
)
def test_what_stops(items: list[list[int]], error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        _one(*items)
    assert "n1" in str(raised.value)


def test_a_silent_node_holds_back_all_and_is_named() -> None:
    bank = Bank(3, SEEDS[1]).run(600)
    logs = bank.all_items()
    half = logs[2][: len(logs[2]) // 2]
    merge, merged = _begin(3).step([logs[0], logs[1], half])
    assert merge.holding() == 2
    assert merged.horizon == merge.nodes[2].floor < merge.nodes[0].floor
    merge, rest = merge.step([logs[0][:0], logs[1][:0], logs[2][len(half) :]])
    assert parts_of([merged, rest]) == parts_of(_whole(bank))
    assert merge.horizon > merged.horizon


def test_text_of_a_virtual_tso() -> None:
    one = VTso(7234839881111830594, 0x1881C1536F401000, 12, 3)
    assert str(one) == "7234839881111830594" + "1765905092998860800" + "0000000012" + "000003"
    assert VTso.parse(str(one)) == one
    with pytest.raises(ValueError, match="not a virtual TSO"):
        VTso.parse("1")
    assert ts_of(5 << 22 | 1 << 21) == 5 << 18 | 1 << 17
