"""The states of a changefeed: one enum (``FeedState``), one table of transitions.

The rows are TiCDC's (pause, resume, retry, fail, finish, remove), with ``pending`` for the time
in which a changefeed backs off. Whoever wants to change a state, API or owner, asks
:func:`transition`; what the table does not name is refused.
"""

from __future__ import annotations

from enum import StrEnum

from cdc.base.errors import ErrorKind, InvalidError
from cdc.coord.messages import FeedState


class FeedEvent(StrEnum):
    """What may happen to a changefeed."""

    PAUSE = "pause"
    RESUME = "resume"
    UPDATE = "update"
    CHANGE = "change"
    MOVE_TABLE = "move-table"
    REMOVE = "remove"
    TRANSIENT_ERROR = "transient-error"
    RETRY = "retry"
    STUCK = "stuck"
    FATAL_ERROR = "fatal-error"
    TABLE_STOPPED = "table-stopped"
    ADVANCED = "advanced"
    TARGET_REACHED = "target-reached"


class TransitionRefused(InvalidError):
    """The event is not possible in this state."""

    code = "TG:ErrChangefeedUpdateRefused"


_S = FeedState
_E = FeedEvent

TRANSITIONS: dict[tuple[FeedState, FeedEvent], FeedState] = {
    (_S.NORMAL, _E.PAUSE): _S.STOPPED,
    (_S.NORMAL, _E.CHANGE): _S.NORMAL,
    (_S.NORMAL, _E.MOVE_TABLE): _S.NORMAL,
    (_S.NORMAL, _E.REMOVE): _S.REMOVED,
    (_S.NORMAL, _E.TRANSIENT_ERROR): _S.PENDING,
    (_S.NORMAL, _E.FATAL_ERROR): _S.FAILED,
    (_S.NORMAL, _E.TABLE_STOPPED): _S.WARNING,
    (_S.NORMAL, _E.TARGET_REACHED): _S.FINISHED,
    (_S.WARNING, _E.MOVE_TABLE): _S.WARNING,
    (_S.WARNING, _E.PAUSE): _S.STOPPED,
    (_S.WARNING, _E.REMOVE): _S.REMOVED,
    (_S.WARNING, _E.TRANSIENT_ERROR): _S.PENDING,
    (_S.WARNING, _E.FATAL_ERROR): _S.FAILED,
    (_S.WARNING, _E.TABLE_STOPPED): _S.WARNING,
    (_S.WARNING, _E.ADVANCED): _S.NORMAL,
    (_S.WARNING, _E.RESUME): _S.NORMAL,
    (_S.WARNING, _E.TARGET_REACHED): _S.FINISHED,
    (_S.PENDING, _E.MOVE_TABLE): _S.PENDING,
    (_S.PENDING, _E.PAUSE): _S.STOPPED,
    (_S.PENDING, _E.REMOVE): _S.REMOVED,
    (_S.PENDING, _E.RETRY): _S.WARNING,
    (_S.PENDING, _E.STUCK): _S.FAILED,
    (_S.PENDING, _E.FATAL_ERROR): _S.FAILED,
    (_S.STOPPED, _E.RESUME): _S.NORMAL,
    (_S.STOPPED, _E.UPDATE): _S.STOPPED,
    (_S.STOPPED, _E.MOVE_TABLE): _S.STOPPED,
    (_S.STOPPED, _E.REMOVE): _S.REMOVED,
    (_S.FAILED, _E.RESUME): _S.NORMAL,
    (_S.FAILED, _E.UPDATE): _S.FAILED,
    (_S.FAILED, _E.MOVE_TABLE): _S.FAILED,
    (_S.FAILED, _E.REMOVE): _S.REMOVED,
    (_S.FINISHED, _E.RESUME): _S.NORMAL,
    (_S.FINISHED, _E.REMOVE): _S.REMOVED,
}

RUNNING = frozenset({FeedState.NORMAL, FeedState.WARNING})
"""States in which a processor delivers."""

ACTIVE = RUNNING | {FeedState.PENDING}
"""States in which the changefeed runs, or will run again by itself."""

_HINTS = {
    FeedEvent.PAUSE: "only a running changefeed can be paused",
    FeedEvent.RESUME: "a stopped, failed or finished changefeed can be resumed, and one in state "
    "warning, whose stopped tables then go on",
    FeedEvent.UPDATE: "pause the changefeed first",
}


def transition(state: FeedState, event: FeedEvent, feed: str = "") -> FeedState:
    """The state after ``event``; raises :class:`TransitionRefused` if the table has no row."""
    after = TRANSITIONS.get((state, event))
    if after is None:
        raise TransitionRefused(
            f"{event} is not possible in state {state}", object=feed, hint=_HINTS.get(event, "")
        )
    return after


def allowed(state: FeedState, event: FeedEvent) -> bool:
    """Whether the table has a row for it."""
    return (state, event) in TRANSITIONS


def event_of_error(kind: str) -> FeedEvent:
    """What a reported error means: the world's are retried, the others end the changefeed.

    *Fenced* is retried too: a broker fences a producer whose transaction timed out, and a new
    epoch heals that; if another owner is alive, it fences us again after each back-off.
    """
    if kind in (ErrorKind.TRANSIENT, ErrorKind.FENCED):
        return FeedEvent.TRANSIENT_ERROR
    return FeedEvent.FATAL_ERROR
