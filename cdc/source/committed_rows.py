"""Rows of XA transactions take effect at their commits, wherever they were prepared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdc.changelog.index import LAST_OF_TRANSACTION, RunKind, Runs
from cdc.changelog.prepared import last_prepared


def without_prepare(runs: Runs, prepared: Runs) -> NDArray[np.int64]:
    """Indices (int64) of the commits in ``runs`` of what was never prepared.

    ``prepared``: the PREPARE rows of transactions that had not ended before ``runs``.
    """
    commits = np.flatnonzero(runs.kind == RunKind.COMMIT)
    known = np.append(prepared.xid, runs.xid[runs.kind == RunKind.PREPARE])
    return commits[~np.isin(runs.xid[commits], known)]


def with_rows(runs: Runs, prepared: Runs) -> Runs:
    """``runs`` with the rows of each transaction that commits in it right before its COMMIT.

    They are numbered through and have its ts and GTID, and the last of them has the flag. A number
    of an xid means one transaction in ``prepared`` and ``runs`` together; of one that is prepared
    again before it has ended only the last rows count.
    """
    commits = np.flatnonzero(runs.kind == RunKind.COMMIT)
    if not len(commits):
        return runs
    rows = last_prepared(Runs.concat([prepared, runs.take(runs.kind == RunKind.PREPARE)]))
    order = np.argsort(runs.xid[commits], kind="stable")
    ends = commits[order]
    which = np.minimum(np.searchsorted(runs.xid[ends], rows.xid), len(ends) - 1)
    ours = (runs.xid[ends[which]] == rows.xid) & (rows.table >= 0)
    rows, commit = rows.take(ours), ends[which[ours]]
    order = np.argsort(commit, kind="stable")
    rows, commit = rows.take(order), commit[order]
    first = np.append(True, commit[1:] != commit[:-1])[: len(commit)]
    before = np.cumsum(rows.rows.astype(np.int64)) - rows.rows
    begins = np.flatnonzero(first)
    rows.first_row[:] = before - np.repeat(before[begins], np.diff(np.append(begins, len(rows))))
    rows.kind[:] = RunKind.DML
    rows.commit_ts[:] = runs.commit_ts[commit]
    rows.gtid_source[:] = runs.gtid_source[commit]
    rows.gtid_seq[:] = runs.gtid_seq[commit]
    rows.flags[:] = np.where(np.append(first[1:], True)[: len(rows)], LAST_OF_TRANSACTION, 0)
    place = np.append(2 * commit, 2 * np.arange(len(runs)) + 1)
    return Runs.concat([rows, runs]).take(np.argsort(place, kind="stable"))
