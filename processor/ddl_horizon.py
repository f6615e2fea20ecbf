"""How far a changefeed may go by its log: up to the next DDL that the owner has not judged."""

from __future__ import annotations

from collections import deque

from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog


class DdlHorizon:
    """The DDLs of a log that the owner has not judged yet; each part of the log is read once.

    The owner says which DDLs it has judged, and the log says which there are: so windows without
    any do not wait for the owner.
    """

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._read_ts: Ts = 0
        self._unjudged: deque[Ts] = deque()

    def upto(self, judged_ts: Ts) -> Ts:
        """The log's resolved ts of its last refresh, or the ts before its first unjudged DDL.

        ``judged_ts``: all DDLs at or below it are judged. Raises LogCollected if the log no longer
        knows which DDLs lie above it.
        """
        unjudged = self.first_unjudged(judged_ts)
        return self._log.state.resolved_ts if unjudged is None else unjudged - 1

    def first_unjudged(self, judged_ts: Ts) -> Ts | None:
        """The first DDL above ``judged_ts`` that the log has resolved. Raises as ``upto``."""
        resolved = self._log.state.resolved_ts
        lo = max(self._read_ts, judged_ts)
        if lo < resolved:
            self._unjudged.extend(self._log.ddls(lo, resolved).commit_ts.tolist())
        self._read_ts = max(lo, resolved)
        while self._unjudged and self._unjudged[0] <= judged_ts:
            self._unjudged.popleft()
        return self._unjudged[0] if self._unjudged else None
