"""Whether a ledger's positions lie in the log where their ts say; else the log is made anew.

A ts is only our name for a transaction, and another log of the same upstream may give it another
one. One that is still on its way to a position cannot tell yet, unless it was made to have it there
(``cdc.changelog.origin``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from cdc.base.clock import Clock
from cdc.base.errors import TransientError
from cdc.base.position import Position
from cdc.changelog.origin import load
from cdc.changelog.reader import ChangeLog
from cdc.coord.messages import FeedInfo
from processor.transaction_names import strangers

PATIENCE_S = 10.0
"""A log that takes longer to come to a position is made anew: then that is known to it."""


class LogDisagrees(TransientError):
    """The log gives other ts than the one that a position of the ledger belongs to."""

    code = "TG:ErrLogDisagrees"


class PositionAhead(TransientError):
    """The log has not come to a position of the ledger yet, so it cannot tell what lies there."""

    code = "TG:ErrPositionAhead"


class LogAgreement:
    """Of one changefeed in one epoch; used by its thread.

    ``disagrees`` is told the upstream whose log has positions elsewhere than a ledger.
    """

    def __init__(
        self,
        info: FeedInfo,
        log: ChangeLog,
        log_folder: Path,
        disagrees: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._info = info
        self._log = log
        self._log_folder = log_folder
        self._disagrees = disagrees
        self._clock = clock
        self._ahead_since: float | None = None

    def check(self, stands: Sequence[Position]) -> None:
        """Raises LogDisagrees or PositionAhead unless all lie where their ts say."""
        reached = self._log.state.resolved_ts
        strange = strangers(stands, self._log, load(self._log_folder))
        if not strange:
            self._ahead_since = None
            return
        ts, name = strange[0]
        about = {"object": f"changefeed {self._info.id}", "position": f"{len(strange)} positions"}
        # Those come in order: if the first is ahead, all are.
        if ts > reached and self._waits():
            raise PositionAhead(
                f"the position at ts {ts} lies behind {name}, and the change log has only come to"
                f" ts {reached}",
                hint="nothing to do: it is looked at again in a moment",
                **about,
            )
        self._disagrees(self._info.upstream)
        raise LogDisagrees(
            f"the position at ts {ts} lies behind {name}, which the change log has elsewhere",
            hint="nothing to do: the log is pulled anew, with the ts that ledgers have",
            **about,
        )

    def _waits(self) -> bool:
        now_s = self._clock.monotonic()
        if self._ahead_since is None:
            self._ahead_since = now_s
        return now_s - self._ahead_since < PATIENCE_S
