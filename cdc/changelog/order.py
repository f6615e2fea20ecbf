"""The invariants of what is appended: commit ts grow, transactions end, nothing comes late."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdc.base.ts import Ts
from cdc.changelog.errors import LogOrderBroken
from cdc.changelog.index import LAST_OF_TRANSACTION, RunKind, Runs


@dataclass(frozen=True, slots=True)
class OrderState:
    """Where the order stands: largest commit ts, and the transaction that has not ended yet.

    ``open_ts`` is the commit ts of a transaction whose last run was not seen yet, else 0;
    ``next_row`` how many rows of it there were.
    """

    last_ts: Ts = 0
    open_ts: Ts = 0
    next_row: int = 0


def _broken(what: str, ts: int) -> LogOrderBroken:
    return LogOrderBroken(what, position=f"ts {ts}")


def advance(state: OrderState, resolved_ts: Ts, runs: Runs) -> OrderState:
    """The state after ``runs``; raises LogOrderBroken where they break an invariant.

    Rows of kind PREPARE and ROLLBACK have no place in the order and are passed over.
    """
    ordered = (runs.kind != RunKind.PREPARE) & (runs.kind != RunKind.ROLLBACK)
    if not ordered.any():
        return state
    ts = runs.commit_ts[ordered]
    first = int(ts[0])
    if first <= resolved_ts:
        raise _broken(f"appended at or below the resolved ts {resolved_ts}", first)
    if first < state.last_ts or (np.diff(ts) < 0).any():
        raise _broken(f"commit ts goes back behind {state.last_ts}", first)
    if state.open_ts and first != state.open_ts:
        raise _broken(f"the transaction at {state.open_ts} has no last run", first)
    after = _advance_dml(state, runs)
    if after.open_ts and after.open_ts < int(ts[-1]):
        raise _broken(f"the transaction at {after.open_ts} has no last run", int(ts[-1]))
    return OrderState(int(ts[-1]), after.open_ts, after.next_row)


def _advance_dml(state: OrderState, runs: Runs) -> OrderState:
    which = np.flatnonzero(runs.kind == RunKind.DML)
    if not len(which):
        return state
    ts, first_row = runs.commit_ts[which], runs.first_row[which]
    end_row = first_row + runs.rows[which]
    last = (runs.flags[which] & LAST_OF_TRANSACTION) != 0
    same = ts[1:] == ts[:-1]
    wrong = same == last[:-1]
    if wrong.any():
        at = int(ts[1:][wrong][0])
        raise _broken("the flag of a transaction's last run is not at its last run", at)
    # A transaction's rows are numbered through, so that (ts, row) is a position.
    expected = np.where(same, end_row[:-1], 0)
    begun = state.next_row if state.open_ts else 0
    if int(first_row[0]) != begun or (first_row[1:] != expected).any():
        raise _broken("rows of a transaction are not numbered through", int(ts[0]))
    if not state.open_ts and int(ts[0]) == state.last_ts:
        raise _broken("two transactions have one commit ts", int(ts[0]))
    if last[-1]:
        return OrderState(state.last_ts)
    return OrderState(state.last_ts, int(ts[-1]), int(end_row[-1]))
