"""A changefeed whose own turn fails, by a bug or an unreadable value, while the others go on."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.base.backoff import Backoff
from cdc.base.errors import InternalError, TidegateError, text_of_foreign
from cdc.coord.messages import ErrorInfo
from cdc.coord.stored import StoredValueUnreadable

# What comes once may have been the moment (memory, a thread that could not start).
_ATTEMPTS = 3
_FIRST_S, _MAX_S = 0.5, 60.0


class TickFailed(InternalError):
    """The owner cannot decide about one changefeed; its log has the details."""

    code = "TG:ErrTickFailed"


@dataclass(frozen=True, slots=True)
class Broken:
    """What its last turn failed with, at which revision of it, and when (monotonic) it is next."""

    error: ErrorInfo
    revision: int
    backoff: Backoff
    until: float
    final: bool

    @classmethod
    def of(
        cls,
        error: Exception,
        feed: str,
        revision: int,
        before: Broken | None,
        now_s: float,
        now_ms: int,
    ) -> Broken:
        """The state after one more failure; ``final``: the changefeed is to fail with it."""
        if not isinstance(error, TidegateError):
            said: TidegateError = TickFailed(
                text_of_foreign(error),
                object=f"changefeed {feed}",
                hint="report this with the capture's log; resume tries again",
            )
        else:
            said = error
        backoff = (before.backoff if before else Backoff(_FIRST_S, max_s=_MAX_S)).failed()
        same = isinstance(error, StoredValueUnreadable)
        return cls(
            ErrorInfo.of(said, now_ms),
            revision,
            backoff,
            now_s + backoff.delay_s(),
            same or backoff.attempt >= _ATTEMPTS,
        )

    def rests(self, revision: int, now_s: float) -> bool:
        """Whether it is not yet time to try again; whoever changes the changefeed does so."""
        return revision == self.revision and now_s < self.until
