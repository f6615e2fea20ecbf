"""Which way a table's rows take, as a table."""

from __future__ import annotations

import pytest

from sink.mysql.errors import MysqlAccessDenied, TargetIncompatible
from sink.mysql.settings import Apply
from sink.mysql.sql_choice import choose

_DIFFERS = ["column a: int upstream, bigint at the target", "column b: other"]


_SAFE = "safe-mode or exactly-once=false: rows may be there already"


@pytest.mark.parametrize(
    ("apply", "differences", "may_binlog", "safe_mode", "method", "reason"),
    [
        ("auto", [], True, False, "rows", "row images fit"),
        ("auto", _DIFFERS, True, False, "sql", f"{_DIFFERS[0]} (and 1 more)"),
        ("auto", _DIFFERS[:1], True, False, "sql", _DIFFERS[0]),
        ("auto", [], False, False, "sql", "the sink's user has no right to BINLOG"),
        ("auto", [], True, True, "sql", _SAFE),
        ("rows", [], True, False, "rows", "apply=rows"),
        ("sql", [], True, False, "sql", "apply=sql"),
        ("sql", _DIFFERS, False, True, "sql", "apply=sql"),
        ("rows", _DIFFERS, True, False, None, TargetIncompatible),
        ("rows", [], True, True, None, TargetIncompatible),
        ("rows", [], False, False, None, MysqlAccessDenied),
        ("rows", _DIFFERS, False, False, None, MysqlAccessDenied),
    ],
)
def test_choice(
    apply: str,
    differences: list[str],
    may_binlog: bool,
    safe_mode: bool,
    method: str | None,
    reason: str | type[Exception],
) -> None:
    def chosen() -> tuple[Apply, str]:
        return choose(Apply(apply), differences, may_binlog, safe_mode=safe_mode, table="s.t")

    if isinstance(reason, str):
        assert chosen() == (Apply(method), reason)
    else:
        with pytest.raises(reason) as e:
            chosen()
        assert e.value.object == "s.t"  # type: ignore[attr-defined]
