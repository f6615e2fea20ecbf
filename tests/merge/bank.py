"""A bank on a made-up cluster: logs of its nodes as items, and a judge who knows what is right.

Transactions move money between accounts under row locks held from prepare to commit; the commit
TSO is asked for after the last prepare. The judge replays a merged order: each branch must find
the balance that it found on its node, the sum must hold after each transaction, and each
distributed transaction must have all its branches.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.cluster import Merged

ACCOUNTS = 12
START = 1000

Change = tuple[int, int, int]  # account, before, after


@dataclass
class Branch:
    node: int
    key: int
    changes: list[Change] = field(default_factory=list)
    prepared: bool = False
    done: bool = False


@dataclass
class Transaction:
    txn: int
    branches: list[Branch]
    tso: int = 0
    heartbeat: bool = False
    rolled_back: bool = False


class Bank:
    """``logs``: items of each node; ``changes``: of the commit with a number, by node."""

    def __init__(self, nodes: int, seed: int, *, say_parts: bool = True, equal: float = 0.2):
        self.random = random.Random(seed)
        self.nodes, self.accounts = nodes, ACCOUNTS
        self.say_parts, self.equal = say_parts, equal
        self.balances = [[START] * ACCOUNTS for _ in range(nodes)]
        self.locked: list[set[int]] = [set() for _ in range(nodes)]
        self.logs: list[list[list[int]]] = [[] for _ in range(nodes)]
        self.changes: dict[tuple[int, int], list[Change]] = {}
        self.parts: dict[tuple[int, int], int] = {}
        self.open: list[Transaction] = []
        self.keys = [0] * nodes
        self.free: list[list[int]] = [[] for _ in range(nodes)]
        self.tso = 0
        self.next_txn = 1
        # Transactions that may share the last TSO: those prepared before it was handed out.
        self.prepared_at_last: set[int] = set()

    def run(self, steps: int) -> Bank:
        """So many actions, then all that is open ends, and a last heartbeat closes the logs."""
        self._heartbeat_now()
        for _ in range(steps):
            chosen = self.random.random()
            if chosen < 0.25:
                self._start()
            elif chosen < 0.35:
                self._local(self.random.randrange(self.nodes))
            elif chosen < 0.37:
                self._start(heartbeat=True)
            elif self.open:
                self._advance(self.random.choice(self.open))
        while self.open:
            self._advance(self.random.choice(self.open))
        self._heartbeat_now()
        self._heartbeat_now()
        return self

    def items(self, node: int) -> np.ndarray:
        return np.array(self.logs[node], np.int64).reshape(-1, K.ITEM_SIZE)

    def all_items(self) -> list[np.ndarray]:
        return [self.items(n) for n in range(self.nodes)]

    def _key(self, node: int) -> int:
        if self.free[node] and self.random.random() < 0.5:
            return self.free[node].pop()
        self.keys[node] += 1
        return self.keys[node] - 1

    def _write(self, node: int, kind: int, key: int, tso: int, txn: int, flags: int, parts: int):
        number = len(self.logs[node]) * 3 + 1
        self.logs[node].append([number, kind, key, tso, txn, flags, parts])
        return number

    def _move(self, node: int, account: int, amount: int) -> Change:
        before = self.balances[node][account]
        self.balances[node][account] += amount
        return account, before, before + amount

    def _free_account(self, node: int) -> int | None:
        free = [a for a in range(ACCOUNTS) if a not in self.locked[node]]
        return self.random.choice(free) if free else None

    def _local(self, node: int) -> None:
        """A transfer within a node: plain, one-phase, or an XA that has no TSO."""
        a, b = self._free_account(node), self._free_account(node)
        if a is None or b is None or a == b:
            return
        key, how = -1, self.random.randrange(3)
        if how:
            key = self._key(node)
            self._write(node, K.PREPARED, key, 0, 0, 0, 0)
        kind = K.COMMITTED if how else K.LOCAL
        number = self._write(node, kind, key, 0, self.next_txn if how else 0, 0, 0)
        if how:
            self.free[node].append(key)
            self.next_txn += 1
        amount = self.random.randrange(1, 50)
        self.changes[node, number] = [self._move(node, a, -amount), self._move(node, b, amount)]

    def _start(self, heartbeat: bool = False) -> None:
        if heartbeat:
            nodes = list(range(self.nodes))
        else:
            count = self.random.randint(1, min(4, self.nodes))
            nodes = self.random.sample(range(self.nodes), count)
            if self.random.random() < 0.1:
                nodes.append(nodes[0])
        self.random.shuffle(nodes)
        one = Transaction(self.next_txn, [Branch(n, -1) for n in nodes], heartbeat=heartbeat)
        self.next_txn += 1
        self.random.shuffle(self.open)
        self.open.append(one)

    def _advance(self, one: Transaction) -> None:
        waiting = [b for b in one.branches if not b.prepared]
        if waiting and not one.rolled_back:
            self._prepare(one, waiting[0])
        elif not one.heartbeat and not one.tso and self.random.random() < 0.1:
            one.rolled_back = True
        elif one.rolled_back:
            self._end(one)
        elif not one.tso:
            self._ask(one)
        else:
            self._end(one)

    def _prepare(self, one: Transaction, branch: Branch) -> None:
        node = branch.node
        if not one.heartbeat:
            account = self._free_account(node)
            if account is None:
                one.rolled_back = True
                return
            sums = sum(c[2] - c[1] for b in one.branches for c in b.changes)
            left = sum(not b.prepared for b in one.branches)
            amount = -sums if left == 1 else self.random.randrange(-40, 40)
            self.locked[node].add(account)
            branch.changes.append(self._move(node, account, amount))
        branch.key = self._key(node)
        branch.prepared = True
        self._write(node, K.PREPARED, branch.key, 0, 0, 0, 0)

    def _ask(self, one: Transaction) -> None:
        share = one.txn in self.prepared_at_last and self.random.random() < self.equal
        if not share:
            self.tso += self.random.randint(1, 3)
            self.prepared_at_last = {
                t.txn for t in self.open if not t.tso and all(b.prepared for b in t.branches)
            }
        one.tso = self.tso

    def _end(self, one: Transaction) -> None:
        for branch in self.random.sample(one.branches, len(one.branches)):
            if branch.done:
                continue
            branch.done = True
            if branch.prepared:
                self._end_branch(one, branch)
                break
        if all(b.done for b in one.branches):
            self.open.remove(one)
            if not one.rolled_back:
                self.parts[one.tso, one.txn] = len(one.branches)

    def _end_branch(self, one: Transaction, branch: Branch) -> None:
        node = branch.node
        kind = K.ROLLED_BACK if one.rolled_back else K.COMMITTED
        flags = K.HEARTBEAT if one.heartbeat else 0
        parts = len(one.branches) if self.say_parts else 0
        number = self._write(node, kind, branch.key, one.tso, one.txn, flags, parts)
        self.free[node].append(branch.key)
        for account, before, after in branch.changes:
            self.locked[node].discard(account)
            if one.rolled_back:
                self.balances[node][account] += before - after
        if not one.rolled_back:
            self.changes[node, number] = branch.changes

    def _heartbeat_now(self) -> None:
        beat = Transaction(self.next_txn, [Branch(n, -1) for n in range(self.nodes)], 0, True)
        self.next_txn += 1
        self.open.append(beat)
        while beat in self.open:
            self._advance(beat)


@dataclass
class Verdict:
    """Counts of a replay: ``torn`` transactions lack a branch or are in several pieces."""

    transactions: int = 0
    distributed: int = 0
    torn: int = 0
    wrong_sums: int = 0
    wrong_balances: int = 0

    @property
    def right(self) -> bool:
        return not (self.torn or self.wrong_sums or self.wrong_balances)


Part = tuple[int, int, int, int, int]  # node, number, tso, txn, sequence


def parts_of(merged: Iterable[Merged]) -> list[list[Part]]:
    """Transactions as lists of parts."""
    found: list[list[Part]] = []
    for piece in merged:
        for i in range(len(piece)):
            if piece.first[i]:
                found.append([])
            columns = (piece.node, piece.number, piece.tso, piece.transaction, piece.sequence)
            found[-1].append(tuple(int(c[i]) for c in columns))
    return found


class Known(Protocol):
    """What the judge must know: changes by (node, number), branches by (TSO, transaction)."""

    nodes: int
    accounts: int
    changes: dict[tuple[int, int], list[Change]]
    parts: dict[tuple[int, int], int]


def judge(bank: Known, order: Sequence[Sequence[Part]]) -> Verdict:
    """Replay an order that has everything behind the first heartbeat."""
    verdict = Verdict()
    balances = [[START] * bank.accounts for _ in range(bank.nodes)]
    whole = START * bank.accounts * bank.nodes
    for parts in order:
        verdict.transactions += 1
        for node, number, *_ in parts:
            for account, before, after in bank.changes[node, number]:
                verdict.wrong_balances += balances[node][account] != before
                balances[node][account] = after
        verdict.wrong_sums += sum(map(sum, balances)) != whole
        if parts[0][4] == 0:
            verdict.distributed += 1
            verdict.torn += bank.parts[parts[0][2], parts[0][3]] != len(parts)
    return verdict
