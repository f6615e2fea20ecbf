"""Every row of the transition table, and that everything else is refused."""

from __future__ import annotations

import itertools

import pytest

from cdc.coord.messages import FeedState
from owner.state import ACTIVE, RUNNING, FeedEvent, TransitionRefused, event_of_error, transition

N, P, W = FeedState.NORMAL, FeedState.PENDING, FeedState.WARNING
S, F, D, R = FeedState.STOPPED, FeedState.FAILED, FeedState.FINISHED, FeedState.REMOVED

# Written out a second time, from the reference's table, so that a slip in the product shows.
EXPECTED = {
    FeedEvent.PAUSE: {N: S, W: S, P: S},
    FeedEvent.RESUME: {S: N, F: N, D: N, W: N},
    FeedEvent.UPDATE: {S: S, F: F},
    FeedEvent.CHANGE: {N: N},
    FeedEvent.MOVE_TABLE: {N: N, W: W, P: P, S: S, F: F},
    FeedEvent.REMOVE: {N: R, W: R, P: R, S: R, F: R, D: R},
    FeedEvent.TRANSIENT_ERROR: {N: P, W: P},
    FeedEvent.RETRY: {P: W},
    FeedEvent.STUCK: {P: F},
    FeedEvent.FATAL_ERROR: {N: F, W: F, P: F},
    FeedEvent.TABLE_STOPPED: {N: W, W: W},
    FeedEvent.ADVANCED: {W: N},
    FeedEvent.TARGET_REACHED: {N: D, W: D},
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(FeedState, FeedEvent)))
def test_each_pair(state: FeedState, event: FeedEvent) -> None:
    after = EXPECTED[event].get(state)
    if after is None:
        with pytest.raises(TransitionRefused) as refused:
            transition(state, event, "changefeed a")
        assert refused.value.code == "TG:ErrChangefeedUpdateRefused"
    else:
        assert transition(state, event) is after


def test_error_kinds() -> None:
    assert event_of_error("transient") is FeedEvent.TRANSIENT_ERROR
    assert event_of_error("fenced") is FeedEvent.TRANSIENT_ERROR
    for kind in ("definite", "invalid", "internal"):
        assert event_of_error(kind) is FeedEvent.FATAL_ERROR


def test_sets_of_states() -> None:
    assert {N, W} == RUNNING
    assert {N, W, P} == ACTIVE
