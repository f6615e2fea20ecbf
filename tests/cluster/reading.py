"""What the nodes' change logs have: items for the merge, and balances as the rows have them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cdc.changelog.index import RunKind
from cdc.changelog.reader import ChangeLog
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.items import Coordinator, NodeItems, place_of
from tests.cluster.coordinator import ACCOUNTS, DistributedDatabase
from tests.merge.bank import Change


def items_of(folder: Path, name: str, coordinator: Coordinator, cut: int = 0) -> np.ndarray:
    """All items of a node's log; ``cut``: read in pieces of so many rows."""
    log = ChangeLog.open(folder)
    reader = NodeItems(name, coordinator)
    found = [np.empty((0, K.ITEM_SIZE), np.int64)]
    for info in log.refresh().segments():
        runs, data = log.index_of(info.number), log.segment(info.number)
        step = cut or len(runs) or 1
        for first in range(0, len(runs), step):
            piece = runs.slice(0, min(first + step, len(runs)))
            found.append(reader.take(info.number, piece, first, data, log.tables))
    log.close()
    return np.concatenate(found)


class Books:
    """What the judge must know, out of the logs and the coordinator's journal."""

    def __init__(self, cluster: DistributedDatabase, folders: Sequence[Path]) -> None:
        self.nodes, self.accounts = len(folders), ACCOUNTS
        journal = cluster.journal
        self.parts = {(tso, txn): len(nodes) for txn, (tso, nodes) in journal.distributed.items()}
        self.changes: dict[tuple[int, int], list[Change]] = {}
        for node, folder in enumerate(folders):
            self._read(node, folder)

    def _read(self, node: int, folder: Path) -> None:
        log = ChangeLog.open(folder)
        by_ts: dict[int, list[Change]] = {}
        ours = {n for n, t in log.tables.items() if t.name == f"accounts_{node}"}
        for info in log.refresh().segments():
            runs = log.index_of(info.number)
            for i in range(len(runs)):
                ts, kind = int(runs.commit_ts[i]), int(runs.kind[i])
                if kind == RunKind.DML and int(runs.table[i]) in ours:
                    by_ts.setdefault(ts, []).extend(changes_in(log.event(runs.slice(i, i + 1))))
        for info in log.state.segments():
            runs = log.index_of(info.number)
            for i in range(len(runs)):
                number = info.number << 32 | i
                assert place_of(number) == (info.number, i)
                self.changes[node, number] = by_ts.get(int(runs.commit_ts[i]), [])
        log.close()


def changes_in(data: bytes) -> list[Change]:
    """Updates of ``(INT NOT NULL, BIGINT NOT NULL)`` in whole events."""
    found: list[Change] = []
    at = 0
    while at < len(data):
        kind, (length,) = data[at + 4], struct.unpack_from("<I", data, at + 9)
        p, end = at + 19 + 8, at + length - 4
        if kind in (24, 31):
            if kind == 31:
                p += struct.unpack_from("<H", data, p)[0]
            assert data[p] == 2
            p += 3
            while p < end:
                _, account, before, _, same, after = struct.unpack_from("<BiqBiq", data, p)
                assert same == account
                found.append((account, before, after))
                p += 26
        at += length
    return found
