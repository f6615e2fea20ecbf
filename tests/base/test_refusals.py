"""Errors of several reasons: what is gathered, what goes through, and that nothing gets lost."""

from __future__ import annotations

import pickle

import pytest

from cdc.api import errors
from cdc.base.errors import InvalidError, TransientError, from_dict
from cdc.base.refusals import Refusals, SeveralReasons, reasons_of


class _Wrong(InvalidError):
    code = "TG:ErrWrongInTest"


class _Gone(TransientError):
    code = "TG:ErrGoneInTest"


def gathered(*texts: str) -> Refusals:
    refusals = Refusals()
    for text in texts:
        with refusals.gathered():
            raise _Wrong(text, object=f"place {text}", hint=f"mend {text}")
    return refusals


def test_nothing_wrong_is_no_error() -> None:
    gathered().check()


def test_one_reason_is_the_error_that_it_was() -> None:
    with pytest.raises(_Wrong) as refused:
        gathered("a", "a").check()
    assert reasons_of(refused.value) == (refused.value,)
    assert "reasons" not in errors.answer(refused.value).body.decode()


def test_several_are_one_error_with_each_of_them() -> None:
    outer = gathered("c")
    with outer.gathered():
        gathered("a", "b", "c").check()
    with pytest.raises(SeveralReasons) as refused:
        outer.check()
    copied = pickle.loads(pickle.dumps(refused.value))
    for error in (refused.value, copied):
        assert [r.object for r in reasons_of(error)] == ["place c", "place a", "place b"]
        assert [r.hint for r in reasons_of(error)] == ["mend c", "mend a", "mend b"]
    assert "place b: b" in from_dict(refused.value.to_dict()).message


def test_an_error_of_the_world_goes_through() -> None:
    refusals = gathered("a")
    with pytest.raises(_Gone), refusals.gathered():
        raise _Gone("away")
