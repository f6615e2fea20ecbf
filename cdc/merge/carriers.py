"""Carriers: where a node's binlog has the commit TSO of a distributed transaction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdc.kernels import merge_commits as C  # noqa: N812
from cdc.merge.errors import MergeCommitMalformed

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Carrier:
    """One way to carry a TSO; ``number`` is the kernel's. ``in_row``: a row before the commit.

    ``family``: the kind of server whose binlog can have it, "" for any. ``counts``: whether it may
    say how many branches a transaction has.
    """

    name: str
    number: int
    what: str
    family: str = ""
    counts: bool = False

    @property
    def in_row(self) -> bool:
        """Whether the TSO is a row of the commit log, written before the commit."""
        return self.number == C.COMMIT_LOG

    def commits(self, data: NDArray[np.uint8], begins: Table, ends: Table, where: str) -> Table:
        """(TSO or 0, transaction or -1, branches or 0) of the group that ends each range of bytes.

        Raises MergeCommitMalformed; ``where`` names the bytes.
        """
        out = np.zeros((len(begins), C.RESULT_SIZE), np.int64)
        bad = C.commits(data, begins, ends, self.number, out)
        if bad != C.DONE:
            raise _malformed(where, int(begins[bad]))
        return out


CARRIERS: dict[str, Carrier] = {
    c.name: c
    for c in (
        Carrier("sequence", C.SEQUENCE, "SEQUENCE events (PolarDB-X on 5.7)", "mysql"),
        Carrier("gcn", C.GCN, "GCN events (PolarDB-X on 8.0)", "mysql", counts=True),
        Carrier(
            "query-gcn", C.QUERY_GCN, "a status variable of XA COMMIT (PolarDB-X on 8.0)", "mysql"
        ),
        Carrier("timestamp", C.TIMESTAMP, "SET timestamp, pseudo_thread_id before XA COMMIT"),
        Carrier(
            "commit-log",
            C.COMMIT_LOG,
            "a row that another session writes before XA COMMIT",
            counts=True,
        ),
        Carrier("gtid", C.MARIADB_GTID, "SET gtid_seq_no before XA COMMIT (MariaDB)", "mariadb"),
        Carrier(
            "original-timestamp", C.ORIGINAL_TIMESTAMP, "SET original_commit_timestamp", "mysql"
        ),
    )
}  # fmt: skip


def commit_log_rows(data: NDArray[np.uint8], begins: Table, ends: Table, where: str) -> Table:
    """(TSO, transaction, branches) of each row that was inserted into a commit log.

    Its columns are ``BIGINT, BIGINT, INT`` (transaction, TSO, branches), all NOT NULL. Raises
    MergeCommitMalformed.
    """
    # No row event is shorter than its row.
    room = int((ends - begins).sum()) // 21 + 1
    out = np.zeros((room, C.RESULT_SIZE), np.int64)
    count = C.commit_log_rows(data, begins, ends, out)
    if count < 0:
        raise _malformed(where, int(begins[-1 - count]))
    return out[:count]


def _malformed(where: str, offset: int) -> MergeCommitMalformed:
    return MergeCommitMalformed(
        "the events that commit a transaction are not what they should be",
        object="carrier",
        position=f"{where}:{offset}",
        hint="check that the carrier is the one that the coordinator uses",
    )
