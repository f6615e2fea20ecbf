"""``shards_merge``: the log over the logs of 1, 2 and 4 nodes, in one thread.

Logs are made up: as many transactions in all, spread over the nodes, each of 10 rows of one table,
their ts as close as servers under load have them. Rows stay where they are, so what is measured is
the order, the index of the merged log, and its commits.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import Figure
from bench.settings import Settings
from cdc.base.clock import SystemClock
from cdc.changelog import node_logs
from cdc.changelog.index import LAST_OF_TRANSACTION, Runs
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.source.merged_rows import NodeLog
from cdc.source.merging import Merging, position_of
from tests.changelog.events import format_description

_NODES = (1, 2, 4)
_ROWS = 4_000_000
_PER_TRANSACTION = 10
_BYTES = 200  # of a transaction
_COMMIT = 20_000  # transactions of a commit of a node's log
_BEGIN = 1 << 40
_APART = 1 << 10  # ts between two transactions
# Two cores deliver some 400,000 rows a second.
_WANTED = 5_000_000
_SETTINGS = ChangelogSettings(free_space_reserve_bytes=0)


def shards_merge(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Rows a second of processor time, and how flat it is from one node to four."""
    count = (settings.rows or _ROWS) // _PER_TRANSACTION
    found: dict[int, list[float]] = {}
    for nodes in _NODES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for node in range(nodes):
                _fill(folder / f"n{node}", node, nodes, count)
            # The first warms up.
            _run(folder, "warm", nodes, count)
            found[nodes] = [
                _run(folder, f"merged{run}", nodes, count) for run in range(settings.runs)
            ]
        rates = ", ".join(f"{r / 1e6:.2f}" for r in found[nodes])
        print(f"shards_merge {nodes} nodes: {rates} M rows/s", flush=True)
    medians = {nodes: statistics.median(rates) for nodes, rates in found.items()}
    figures = [
        Figure.more(f"shards_merge_{n}", rate, "rows/s", "target", _WANTED)
        for n, rate in medians.items()
    ]
    flat = medians[4] / medians[1]
    figures.append(Figure.more("shards_merge_flat", flat, "4 : 1 nodes", "target", 1.0))
    return figures, {"shards_merge": {"rows": count * _PER_TRANSACTION, "runs": found}}


def _fill(folder: Path, node: int, nodes: int, count: int) -> None:
    """Every transaction of which the number falls to this node, and all of them resolved."""
    mine = np.arange(node, count, nodes)
    with closing(LogWriter.open(folder, _SETTINGS, SystemClock())) as writer:
        writer.set_format(format_description())
        writer.table_id("shop", "orders", b"map")
        writer.begin(_BEGIN, {})
        for at in range(0, len(mine), _COMMIT):
            part = mine[at : at + _COMMIT]
            runs = Runs.build(
                len(part),
                commit_ts=_BEGIN + 1 + part * _APART,
                flags=LAST_OF_TRANSACTION,
                table=0,
                offset=np.arange(len(part)) * _BYTES,
                length=_BYTES,
                rows=_PER_TRANSACTION,
                gtid_source=writer.source_id(f"0-{node}"),
                gtid_seq=part,
            )
            writer.append(bytes(len(part) * _BYTES), runs)
            writer.commit(int(runs.commit_ts[-1]), {})
        writer.commit(_BEGIN + 1 + count * _APART, {})


def _run(folder: Path, name: str, nodes: int, count: int) -> float:
    """Rows a second of processor time; every transaction must come out, in order."""
    merged, names = folder / name, [f"n{n}" for n in range(nodes)]
    merged.mkdir()
    node_logs.save(merged, [NodeFolder(n, f"../{n}") for n in names])
    with ExitStack() as stack:
        writer = stack.enter_context(closing(LogWriter.open(merged, _SETTINGS, SystemClock())))
        writer.begin(_BEGIN, position_of(dict.fromkeys(names, _BEGIN)))
        logs = [NodeLog(n, stack.enter_context(closing(ChangeLog.open(folder / n)))) for n in names]
        merging = Merging(writer, logs, _SETTINGS.segment_bytes)
        began = time.process_time()
        while merging.step():
            pass
        spent = time.process_time() - began
        state = writer.state
    if state.last_ts != _BEGIN + 1 + (count - 1) * _APART:
        raise RuntimeError(f"the last transaction has ts {state.last_ts}")
    if sum(s.index for s in state.segments()) == 0:
        raise RuntimeError("nothing was merged")
    return count * _PER_TRANSACTION / spent
