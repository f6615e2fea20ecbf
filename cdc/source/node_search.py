"""Finding in a node's log, as it grows, the transaction that a cut names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdc.base.nodes import node_of_source, source_of
from cdc.base.position import LastOfNode, Position, TransactionName
from cdc.base.ts import Ts
from cdc.changelog.index import RunKind, Runs
from cdc.source.errors import TransactionMoved
from cdc.source.merged_rows import NodeLog
from cdc.source.position import UpstreamPosition

# Of a node's index at once; no rows are read.
_BATCH_BYTES = 1 << 30


class NodeSearch:
    """In one node's log. What was looked through once is not looked through again."""

    def __init__(self, node: NodeLog) -> None:
        self._node = node
        self._wanted: LastOfNode | None = None
        self._looked: Ts = 0
        self._found: Ts | None = None

    def find(self, wanted: LastOfNode, above: Ts) -> Ts | None:
        """The ts that the node's log gives it; None if it has not come yet.

        It lies above ``above``. Raises TransactionMoved if it does not come any more.
        """
        if wanted != self._wanted:
            self._wanted, self._looked, self._found = wanted, above, None
        log = self._node.log
        state = log.state
        while self._found is None and self._looked < state.resolved_ts:
            lo, hi = Position(self._looked), Position(state.resolved_ts)
            runs = log.runs(lo, hi, max_bytes=_BATCH_BYTES)
            upto = log.end_position(runs, hi).resolved()
            if upto <= self._looked:
                # A transaction that is larger than what is looked through at once.
                upto += 1
                runs = log.runs(lo, Position(upto))
            there = self._same(Runs.concat([runs, log.ddls(self._looked, upto)]), wanted)
            if there.any():
                self._found = int(there.max())
            self._looked = upto
        if self._found is None and _passed(wanted, UpstreamPosition.from_dict(state.position)):
            raise TransactionMoved(
                f"{wanted.source}:{wanted.sequence} was delivered, and does not lie in the"
                " node's binlog where it did",
                object=f"node {self._node.name}",
                hint="the node has lost transactions or is another server; compare source and"
                " target, and resume with --overwrite-checkpoint-ts",
            )
        return self._found

    def _same(self, rows: Runs, wanted: LastOfNode) -> NDArray[np.int64]:
        """The ts of the rows that are the wanted transaction's."""
        sources, node = self._node.log.sources, node_of_source(wanted.source)
        ids = np.unique(rows.gtid_source).tolist()
        ours = [i for i in ids if i >= 0 and source_of(node, sources[i]) == wanted.source]
        there: NDArray[np.bool_] = np.isin(rows.gtid_source, ours)
        file = _file_of(wanted)
        if file is not None:
            there |= (rows.gtid_source < 0) & (rows.upstream_file == file)
        there &= rows.gtid_seq == wanted.sequence
        there &= (rows.kind == RunKind.DDL) == wanted.statement
        return rows.commit_ts[there]


def _passed(wanted: LastOfNode, here: UpstreamPosition) -> bool:
    """Whether what lies in front of ``here`` in the node's binlog includes it.

    Numbers of GTIDs alone do not say so: a replica that applies in parallel writes them out of
    order, and members of a group take theirs from blocks.
    """
    file = _file_of(wanted)
    if file is not None:
        return here.passed(TransactionName(0, "", wanted.sequence, file), "")
    # Without GTIDs nothing is known of one.
    source = wanted.source.partition(":")[2]
    kind = "mariadb" if source.count("-") == 1 else "mysql"
    name = TransactionName(0, source, wanted.sequence, -1)
    return here.gtid is not None and here.passed(name, kind)


def _file_of(wanted: LastOfNode) -> int | None:
    """The number of the binlog file that stands for a source, None of a GTID's."""
    word, _, number = wanted.source.partition(":")[2].partition(" ")
    return int(number) if word == "file" else None
