"""By which way a table's rows are applied: as row images, or as SQL text; and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sink.mysql.errors import MysqlAccessDenied, TargetIncompatible
from sink.mysql.settings import Apply


class MethodChoice(NamedTuple):
    """``method`` is ``Apply.ROWS`` or ``Apply.SQL``; ``reason`` is one clause for people."""

    method: Apply
    reason: str


def choose(
    apply: Apply,
    differences: Sequence[str],
    may_binlog: bool,
    *,
    safe_mode: bool = False,
    table: str = "",
) -> MethodChoice:
    """Decide for one table.

    ``differences`` are what ``compat.reasons`` found, ``may_binlog`` says whether the sink's user
    may run BINLOG. Raises, for ``apply=rows`` only, ``MysqlAccessDenied`` or ``TargetIncompatible``
    about ``table``.
    """
    against = _against(differences, may_binlog, safe_mode)
    if apply is Apply.SQL:
        return MethodChoice(Apply.SQL, "apply=sql")
    if not against:
        return MethodChoice(Apply.ROWS, "apply=rows" if apply is Apply.ROWS else "row images fit")
    if apply is Apply.AUTO:
        return MethodChoice(Apply.SQL, against)
    if not may_binlog:
        raise MysqlAccessDenied(
            f"apply=rows, but {against}",
            object=table,
            hint="grant BINLOG REPLAY (MariaDB) or REPLICATION_APPLIER (MySQL), or set apply=auto",
        )
    raise TargetIncompatible(
        f"apply=rows, but {against}",
        object=table,
        hint="set apply=auto" if safe_mode else "set apply=auto, or make both definitions the same",
    )


def _against(differences: Sequence[str], may_binlog: bool, safe_mode: bool) -> str:
    if safe_mode:
        return "safe-mode or exactly-once=false: rows may be there already"
    if not may_binlog:
        return "the sink's user has no right to BINLOG"
    if differences:
        more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
        return differences[0] + more
    return ""
