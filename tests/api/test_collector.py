"""The pause of Python's collector, as it was before in the end, whatever happens."""

from __future__ import annotations

import gc

import pytest

from cdc.base.collector import collection_paused


def test_it_is_on_again_also_after_an_error() -> None:
    seen = []

    def fail() -> None:
        with collection_paused():
            seen.append(gc.isenabled())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [*seen, gc.isenabled()] == [False, True]


def test_a_pause_within_a_pause_ends_nothing() -> None:
    with collection_paused():
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
