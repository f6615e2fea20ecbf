"""A session that is there when it is asked for, however long ago that was last so."""

from __future__ import annotations

import time

import pymysql

from sink.mysql.connection import SinkSession
from sink.mysql.settings import MysqlSettings

# Well below the time after which the server ends an idle session of ours.
_ASK_AFTER_S = 30.0


class Fresh:
    """Keeps one session and makes another where the server has ended it. Not thread-safe."""

    def __init__(self, settings: MysqlSettings) -> None:
        self._settings = settings
        self._session = SinkSession(settings)
        self._used = time.monotonic()

    def get(self) -> SinkSession:
        """The session, outside of any transaction. Raises what connecting raises."""
        now = time.monotonic()
        if now - self._used > _ASK_AFTER_S and not self._answers():
            self._session.close()
            self._session = SinkSession(self._settings)
        self._used = now
        return self._session

    def _answers(self) -> bool:
        try:
            self._session.rows("SELECT 1 AS x")
        except (pymysql.err.Error, OSError, EOFError):
            return False
        return True

    def close(self) -> None:
        """End the session."""
        self._session.close()
