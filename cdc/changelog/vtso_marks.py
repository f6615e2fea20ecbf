"""Marks: what a cluster's coordinator calls the transactions of a merged log.

A mark is a row of the index, behind the rows of its transaction and with their ts. Of its columns
``gtid_seq`` has the TSO, ``upstream_pos`` the transaction's id, ``first_row`` its sequence, ``xid``
its node and ``rows`` how many branches it has.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdc.base.ts import Ts
from cdc.base.vtso import VTso
from cdc.changelog.index import RunKind, Runs

Numbers = NDArray[np.int64]
NO_MARKS: Numbers = np.empty((0, 6), np.int64)


def marks(
    ts: Numbers,
    tso: Numbers,
    transaction: Numbers,
    sequence: Numbers,
    node: Numbers,
    branches: Numbers,
) -> Runs:
    """Marks of transactions with these ts; ``node`` counts from 1, 0 where there are several."""
    return Runs.build(
        len(ts),
        commit_ts=ts,
        kind=int(RunKind.MARK),
        gtid_seq=tso,
        upstream_pos=transaction,
        first_row=sequence,
        xid=node,
        rows=branches,
    )


def vtso_at(found: Runs, ts: Ts) -> VTso | None:
    """The virtual TSO of the transaction at ``ts``, out of marks that rise by ts."""
    at = int(np.searchsorted(found.commit_ts, ts))
    if at == len(found) or int(found.commit_ts[at]) != ts:
        return None
    tso, transaction = int(found.gtid_seq[at]), int(found.upstream_pos[at])
    return VTso(tso, transaction, int(found.first_row[at]), int(found.xid[at]))


def table(found: Runs, lo: Ts, hi: Ts) -> Numbers:
    """Int64[:, 6] of those with ``lo <= ts <= hi``: ts, TSO, transaction, sequence, node, branches.

    ``found`` rises by ts.
    """
    a, b = np.searchsorted(found.commit_ts, lo), np.searchsorted(found.commit_ts, hi, "right")
    m = found.slice(int(a), int(b))
    columns = (m.commit_ts, m.gtid_seq, m.upstream_pos, m.first_row, m.xid, m.rows)
    return np.stack(columns, axis=1).astype(np.int64)


def behind(runs: Runs, found: Runs) -> Runs:
    """``runs`` with each mark behind the last row of its ts."""
    place = np.append(runs.commit_ts, found.commit_ts)
    return Runs.concat([runs, found]).take(np.argsort(place, kind="stable"))
