"""Which row of a statement the target refuses: its own message has no schema, often no key."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymysql

from cdc.base.errors import ErrorKind, TidegateError
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import Order, RowBatch
from sink.dispatch.target import TargetRouter
from sink.mysql.errors import ShardKeyConflict, TargetDuplicateKey, is_lost, map_error

Apply = Callable[[Order], None]
# So many tables of a group are named.
_SHOWN = 3


def explain(
    error: pymysql.err.Error, apply: Apply, located: RowBatch, order: Order, names: TargetRouter
) -> TidegateError:
    """Our error for a refusal of ``located.refs[order]``, about the first row that is refused.

    ``names`` say which tables are one at the target. ``apply`` sends rows into the same
    transaction, of which the refused statement left nothing; the transaction must be given up
    afterwards. Takes about two statements for each halving.
    """
    object = located.name
    found = map_error(error, object)
    if found.kind is not ErrorKind.DEFINITE or is_lost(error):
        return found
    try:
        row, error = _first_refused(apply, order, error)
    except (pymysql.err.Error, OSError, EOFError, TidegateError):
        return found
    reference = located.refs[row]
    found = map_error(
        error,
        located.row_name(row),
        position=f"{located.position(int(reference[L.R_END]))}, ts {int(reference[L.R_TS])}",
    )
    if isinstance(found, TargetDuplicateKey) and names.merging:
        return _met(found, located, row, names)
    return found


def _met(
    found: TargetDuplicateKey, located: RowBatch, row: int, names: TargetRouter
) -> TidegateError:
    """The error about a key that two tables of a group have, if the row's table may be in one.

    Of its group only those tables are known here that have had rows in this worker.
    """
    entries = located.plans.entries
    ours = entries[int(located.refs[row, L.R_PLAN])].table
    target = names.target(ours.schema, ours.name)
    others = {
        i: entry.table.full_name
        for i, entry in enumerate(entries)
        if entry.table.full_name != ours.full_name
        and names.target(entry.table.schema, entry.table.name) == target
    }
    if not others and names.rule(ours.schema, ours.name) < 0:
        return found
    key = located.key_text(row)
    before = np.flatnonzero(np.isin(located.refs[:row, L.R_PLAN], list(others)))
    same = (int(i) for i in before[::-1] if located.key_text(int(i)) == key)
    last = next(same, None)
    if last is not None:
        who = f"put there by {others[int(located.refs[last, L.R_PLAN])]}"
    elif not others:
        who = "put there by another table that goes there, or by somebody else"
    else:
        who = f"which takes rows of {', '.join(sorted(set(others.values()))[:_SHOWN])} too"
    return ShardKeyConflict(
        f"{'.'.join(target)} has a row with this key already, {who}",
        object=found.object,
        position=found.position,
        hint="make the keys distinct upstream; or set safe-mode, with which the later row counts",
    )


def _first_refused(
    apply: Apply, order: Order, error: pymysql.err.Error
) -> tuple[int, pymysql.err.Error]:
    if len(order) == 1:
        # Not again: a row that becomes two statements has left its first.
        return int(order[0]), error
    while len(order) > 1:
        half = order[: len(order) // 2]
        try:
            apply(half)
        except pymysql.err.Error as e:
            if is_lost(e):
                raise
            order, error = half, e
        else:
            order = order[len(half) :]
    try:
        apply(order)
    except pymysql.err.Error as e:
        error = e
    return int(order[0]), error
