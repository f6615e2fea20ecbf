"""Which of a window's failures decides how the changefeed goes on."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.base.errors import ErrorKind, TidegateError, from_dict
from processor.task_messages import Ack
from sink.errors import LayoutOutgrown, TargetConstraint

# A definite error explains more than the transient ones that it caused elsewhere.
_ORDER = (ErrorKind.FENCED, ErrorKind.DEFINITE, ErrorKind.INVALID, ErrorKind.INTERNAL)


def failure(acks: Sequence[Ack], *, kept: bool) -> tuple[TidegateError, str | None] | None:
    """The error that decides, and the table (``schema.table``) if it is about one alone.

    ``kept``: the window went by a layout of before, which may part tables that are tied now. What
    the other destinations do in it comes first when it is tried again, so that is what happens.
    """
    failed = [(a, from_dict(a.error)) for a in acks if a.error is not None]
    if not failed:
        return None
    failed.sort(key=lambda f: _ORDER.index(f[1].kind) if f[1].kind in _ORDER else len(_ORDER))
    ack, error = failed[0]
    if kept and isinstance(error, TargetConstraint):
        return LayoutOutgrown(error.message, object=error.object, hint=error.hint), None
    about_rows = error.kind in (ErrorKind.DEFINITE, ErrorKind.INVALID)
    return error, ack.table if about_rows else None
