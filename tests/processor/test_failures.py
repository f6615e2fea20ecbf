"""Which failure of several decides, and whom it concerns."""

from __future__ import annotations

from cdc.base.errors import TidegateError
from processor.failures import failure
from processor.task_messages import Ack
from sink.errors import FencedEpoch, LayoutOutgrown, TargetConstraint
from sink.mysql.errors import MysqlLockWait, TargetDuplicateKey


def _ack(error: TidegateError, table: str | None = None) -> Ack:
    return Ack((("mysql", 0),), error=error.to_dict(), table=table)


_CONSTRAINT = TargetConstraint("no such parent", object="s.child", hint="?")
_DUPLICATE = TargetDuplicateKey("twice", object="s.t", hint="?")
_LOCKED = MysqlLockWait("waited", object="target", hint="?")
_FENCED = FencedEpoch("another epoch", object="ledger", hint="?")


def test_what_explains_most_decides() -> None:
    assert failure([Ack((("mysql", 0),))], kept=False) is None
    acks = [_ack(_LOCKED), _ack(_DUPLICATE, "s.t")]
    found = failure(acks, kept=False)
    assert found is not None
    assert (type(found[0]), found[1]) == (TargetDuplicateKey, "s.t")
    found = failure([*acks, _ack(_FENCED, "s.t")], kept=False)
    assert found is not None
    assert (type(found[0]), found[1]) == (FencedEpoch, None)


def test_an_older_layout_is_no_reason_to_stop_a_table() -> None:
    acks = [_ack(_LOCKED), _ack(_CONSTRAINT, "s.child")]
    found = failure(acks, kept=False)
    assert found is not None
    assert (type(found[0]), found[1]) == (TargetConstraint, "s.child")
    again = failure(acks, kept=True)
    assert again is not None
    assert (type(again[0]), again[0].kind, again[1]) == (LayoutOutgrown, "transient", None)
    duplicate = failure([_ack(_DUPLICATE, "s.t")], kept=True)
    assert duplicate is not None
    assert duplicate[1] == "s.t"
