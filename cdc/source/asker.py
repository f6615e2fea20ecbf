"""Asks a server where it stands, beside the dump: a thread with a connection of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import replace
from typing import Any

import pymysql

from cdc.base.clock import Clock
from cdc.base.errors import TidegateError
from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import open_connection, query_error, rows
from cdc.source.errors import BinlogPurged, UpstreamReset
from cdc.source.history import file_head
from cdc.source.position import UpstreamPosition, file_number
from cdc.source.server_standing import ServerStanding, ask_standing
from cdc.source.settings import SourceSettings
from cdc.source.vouching import Answer, Vouching, doubtful


class Asker:
    """One question at a time: :meth:`begin` puts it, :meth:`taken` gives what came of it.

    A server that does not answer costs the dump nothing; the next question opens a new connection.
    """

    def __init__(self, info: UpstreamInfo, settings: SourceSettings, clock: Clock) -> None:
        self._info = info
        self._settings = settings
        self._clock = clock
        self._connection: Any = None
        self._changed = threading.Condition()
        self._question: tuple[UpstreamPosition, Vouching] | None = None
        self._answer: Answer | Exception | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a question is out, or an answer not yet taken."""
        with self._changed:
            return self._question is not None or self._answer is not None

    def begin(self, here: UpstreamPosition, vouching: Vouching) -> None:
        """Ask; ``here`` must be a place that the stream has passed."""
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="asker", daemon=True)
                self._thread.start()
            self._question = (here, vouching)
            self._changed.notify_all()

    def taken(self) -> Answer | Exception | None:
        """The answer or why there is none, once; ``None`` while nothing has come."""
        with self._changed:
            answer, self._answer = self._answer, None
            return answer

    def ask(self, here: UpstreamPosition, vouching: Vouching) -> Answer:
        """Ask and wait; only before :meth:`begin`. Raises UpstreamGone, UpstreamNotReady."""
        name = f"upstream {self._info.name}"
        try:
            if self._connection is None:
                self._connection = open_connection(self._info, self._settings)
            at = self._clock.monotonic()
            standing = ask_standing(self._connection, self._info.server_kind)
            if doubtful(vouching, standing, at):
                standing = self._looked(here, standing)
            return Answer(here, standing, at)
        except pymysql.err.MySQLError as error:
            self._drop()
            raise query_error(error, name) from None
        except TidegateError:
            self._drop()
            raise

    def _looked(self, here: UpstreamPosition, standing: ServerStanding) -> ServerStanding:
        files = rows(self._connection, "SHOW BINARY LOGS")
        numbers = [file_number(str(f["log_name"])) for f in files]
        try:
            head = file_head(self._info, here.file, self._settings) if here.file else (0, 0)
        except (BinlogPurged, UpstreamReset):
            head = (0, 0)
        first = min(numbers, default=0)
        return replace(standing, created=head[0], written_by=head[1], first_file=first)

    def close(self) -> None:
        """End the thread, whatever it waits for."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is None:
            self._drop()
            return
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError, AttributeError):
                # Ends a read that waits; the thread itself drops the connection.
                socket.socket.shutdown(connection._sock, socket.SHUT_RDWR)
        self._thread.join(1.0)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection._force_close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._question is not None)
                if self._closed or self._question is None:
                    self._drop()
                    return
                here, vouching = self._question
            answer: Answer | Exception
            try:
                answer = self.ask(here, vouching)
            except Exception as error:
                answer = error
            with self._changed:
                self._question, self._answer = None, answer
