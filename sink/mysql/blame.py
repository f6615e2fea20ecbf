"""Which row of a statement the target refuses: its own message has no schema, often no key."""

from __future__ import annotations

from collections.abc import Callable

import pymysql

from cdc.base.errors import ErrorKind, TidegateError
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import Order, RowBatch
from sink.mysql.errors import is_lost, map_error

Apply = Callable[[Order], None]


def explain(
    error: pymysql.err.Error, apply: Apply, located: RowBatch, order: Order
) -> TidegateError:
    """Our error for a refusal of ``located.refs[order]``, about the first row that is refused.

    ``apply`` sends rows into the same transaction, of which the refused statement left nothing;
    the transaction must be given up afterwards. Takes about two statements for each halving.
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
    table = located.plans.entries[int(reference[L.R_PLAN])].table
    return map_error(
        error,
        f"{table.full_name}, row {located.key_text(row)}",
        position=f"{located.name}:{int(reference[L.R_END])}, ts {int(reference[L.R_TS])}",
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
