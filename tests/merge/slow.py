"""The merge as the description has it, one object after another, and with parts to switch off.

It shares nothing with the product. Switched off, it shows that the judge sees what each part of
the algorithm is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cdc.kernels import merge_sort as K  # noqa: N812
from tests.merge.bank import Part


@dataclass
class Switches:
    sort: bool = True  # commits by their TSO, else as they come
    holes: bool = True  # an open prepare holds back what is behind it
    wait: bool = True  # for every node to be known up to the place that is taken


ALL_ON = Switches()


def node_order(
    items: np.ndarray, on: Switches
) -> list[list[tuple[tuple[int, int, int], int, int]]]:
    """After each item: what has become final, as ((tso, txn, seq), number, flags)."""
    most, seq = (0, 0), 0
    waiting: list[dict] = []
    committed: list[tuple[tuple[int, int, int], int, int]] = []
    floor = 0
    result = []
    for number, kind, key, tso, txn, flags, _ in items.tolist():
        entry = {"open": kind == K.PREPARED, "key": key, "tso": 0}
        if kind in (K.COMMITTED, K.ROLLED_BACK):
            next(e for e in waiting if e["open"] and e["key"] == key)["open"] = False
        if kind in (K.COMMITTED, K.LOCAL):
            if kind == K.COMMITTED and tso:
                if (tso, txn) > most:
                    most, seq = (tso, txn), 0
                committed.append(((tso, txn, 0), number, flags))
                entry["tso"] = tso
            else:
                seq += 1
                committed.append(((*most, seq), number, flags))
                entry["tso"] = most[0]
        waiting.append(entry)
        while waiting and not (waiting[0]["open"] and on.holes):
            floor = max(floor, waiting.pop(0)["tso"]) if on.holes else entry["tso"]
            if not on.holes:
                break
        final = sorted(c for c in committed if c[0][0] < floor or not on.sort)
        committed = [c for c in committed if c not in final]
        result.append(final)
    return result


def merge(logs: Sequence[np.ndarray], on: Switches = ALL_ON) -> list[list[Part]]:
    """Everything behind the first heartbeat that is final at the end of the logs."""
    rows: list[tuple[tuple[int, int, int], int, int, int]] = []
    for node, items in enumerate(logs):
        final = [c for step in node_order(items, on) for c in step]
        rows += [(vtso, node, number, flags) for vtso, number, flags in final]
    rows = _heads(rows, len(logs))
    groups: list[list[tuple[tuple[int, int, int], int, int, int]]] = []
    for row in rows:
        vtso = row[0]
        if groups and vtso[2] == 0 and groups[-1][0][0] == vtso:
            groups[-1].append(row)
        else:
            groups.append([row])
    if not on.wait:
        groups = _as_seen(logs, on)
    beats = (i for i, g in enumerate(groups) if g[0][3] & K.HEARTBEAT and len(g) == len(logs))
    first = next(beats, -1)
    return [
        [(node, number, *vtso) for vtso, node, number, _ in group] for group in groups[first + 1 :]
    ]


def _heads(rows: list, nodes: int) -> list:
    """Each node's rows in their own order, the smallest head first."""
    queues = [[r for r in rows if r[1] == n] for n in range(nodes)]
    merged = []
    while any(queues):
        head = min((q for q in queues if q), key=lambda q: q[0][0])
        merged.append(head.pop(0))
    return merged


def _as_seen(logs: Sequence[np.ndarray], on: Switches) -> list:
    """What is final on any node is taken at once: nobody waits for the others."""
    steps = [node_order(items, on) for items in logs]
    groups: list = []
    for i in range(max(map(len, steps))):
        now = sorted(
            (vtso, node, number, flags)
            for node, each in enumerate(steps)
            if i < len(each)
            for vtso, number, flags in each[i]
        )
        for row in now:
            if groups and row[0][2] == 0 and groups[-1][0][0] == row[0]:
                groups[-1].append(row)
            else:
                groups.append([row])
    return groups
