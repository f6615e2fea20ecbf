"""Statements on their way to the target: the next one is sent before the last one is answered.

So the target finds work in its socket whenever it has finished some, and statements of one row cost
no round trip each. A server answers in order. One that rolls the whole transaction back (deadlock)
goes on with what was sent behind; the session has autocommit off, so that this is a transaction
of its own, which ends with the connection.

Row events travel as base64 in a literal of ``BINLOG``. MariaDB also takes them out of a user
variable, which a prepared statement sets: the server then neither looks for the literal's end nor
checks its characters, which takes a sixth of its work away.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pymysql

from cdc.base.errors import TidegateError
from cdc.kernels.base64 import encode
from cdc.rows.batch import Buffer
from sink.mysql.connection import EVENTS_SQL_MODE, SinkSession
from sink.mysql.errors import is_lost, number_of
from sink.mysql.sql_plan import SQL_MODE

Refused = Callable[[pymysql.err.Error], Exception]
Answered = Callable[[int], None]

# What may be unanswered behind the statement that the target works on. Answers must stay far below
# what sockets hold, or both sides would wait for each other.
_UNANSWERED, _UNANSWERED_BYTES = 100, 256 << 10
# Small statements are sent together.
_FLUSH_BYTES = 16 << 10
# What one statement leaves behind is given up if it is larger.
_KEPT_BYTES = 8 << 20
_QUERY, _EXECUTE = 0x03, 0x17
_HEADER, _MOST = 4, (1 << 24) - 1
_LITERAL, _LITERAL_END = b"\x03BINLOG '", b"'"
_PREPARED = "SET @tidegate_rows = ?"
_FROM_VARIABLE = b"BINLOG @tidegate_rows, @tidegate_none"
_FORGET = b"SET @tidegate_rows = ''"
# Command, statement id, no cursor, one iteration; no NULLs; types follow: a BLOB; its length.
_BINDING = struct.Struct("<BIBIBBHBQ")
_BLOB, _EIGHT = 0xFC, 0xFE
# No such syntax.
_UNKNOWN = frozenset((1064, 1149, 1235, 1295))
LITERAL_SPARE = 64
"""Bytes of a statement besides the base64 of its events, at most."""


def base64_size(size: int) -> int:
    """Length of the base64 text of ``size`` bytes."""
    return (size + 2) // 3 * 4


@dataclass(frozen=True, slots=True)
class _Sent:
    """What one payload became: commands that are each answered; ``sequences`` of the answers."""

    sequences: tuple[int, ...]
    size: int
    answered: Answered | None
    refused: Refused | None


class Statements:
    """All statements of one session that carry rows. Not thread-safe.

    An error comes out of a later call than the one that sent the statement, when all that was
    sent has been answered: what ``answered`` raises, or PyMySQL's own, or what ``refused`` makes
    of that. Lost connections are never handed to ``refused``. Call ``settle`` before anything
    else is done with the session.
    """

    def __init__(self, session: SinkSession) -> None:
        """For SQL text; nothing is sent."""
        self._session = session
        self._text = False
        self._prepared = 0
        self._sent: deque[_Sent] = deque()
        self._unanswered = 0
        self._outgoing = bytearray()
        self._packets = np.empty(0, np.uint8)
        self.count = 0

    @property
    def open(self) -> bool:
        """Whether anything is unanswered."""
        return bool(self._sent)

    def prepare(self, format_event: bytes) -> None:
        """Get ready for row events, which the server reads as ``format_event`` says.

        Raises PyMySQL's errors, as for a right that is missing.
        """
        # With a multi-byte character set the server looks at each character of a literal.
        self._session.run("SET SESSION character_set_client = binary")
        if self._session.target.mariadb:
            self._session.run("SET @tidegate_none = ''")
            self._prepared = self._session.prepare(_PREPARED)
            try:
                self._announce(format_event)
            except pymysql.err.Error as error:
                if number_of(error) not in _UNKNOWN:
                    raise
                self._prepared = 0
        if not self._prepared:
            self._announce(format_event)
        if not self._session.target.mariadb:
            # The event leaves it at NOT_YET_DETERMINED, with which nothing can be written.
            self._session.run("SET SESSION gtid_next = 'AUTOMATIC'")

    def events(
        self,
        payload: bytes | bytearray | memoryview,
        *,
        refused: Refused | None = None,
    ) -> None:
        """Send one statement's events."""
        self._use(sql=False)
        data = np.frombuffer(payload, np.uint8)
        text = base64_size(data.size)
        head, tail = _LITERAL, _LITERAL_END
        if self._prepared:
            tail = b""
            head = _BINDING.pack(_EXECUTE, self._prepared, 0, 1, 0, 1, _BLOB, _EIGHT, text)
        first, size = _HEADER + len(head), len(head) + text + len(tail)
        if self._packets.size < _HEADER + size:
            self._packets = np.empty(_HEADER + size, np.uint8)
        out = self._packets
        out[_HEADER:first] = np.frombuffer(head, np.uint8)
        end = encode(data, 0, data.size, out, first)
        out[end : end + len(tail)] = np.frombuffer(tail, np.uint8)
        sequences = [self._command(out[: _HEADER + size])]
        if self._prepared:
            sequences.append(self._query(_FROM_VARIABLE))
            if size > _KEPT_BYTES:
                sequences.append(self._query(_FORGET))
        if size > _KEPT_BYTES:
            self._packets = np.empty(0, np.uint8)
        self._wait(_Sent(tuple(sequences), size, None, refused))

    def text(
        self,
        statement: bytes | bytearray | memoryview,
        *,
        answered: Answered | None = None,
        refused: Refused | None = None,
    ) -> None:
        """Send one statement of SQL; ``answered`` is given the rows that it found."""
        self._use(sql=True)
        sequence = self._query(statement)
        self._wait(_Sent((sequence,), len(statement), answered, refused))

    def settle(self) -> None:
        """Wait for the answers to all that was sent."""
        self._flush()
        while self._sent:
            self._answer()

    def _announce(self, format_event: bytes) -> None:
        self.events(format_event)
        self.settle()

    def _use(self, *, sql: bool) -> None:
        """Set the session up for text or for events."""
        if sql == self._text:
            return
        words = (
            f"SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00',"
            " character_set_client = utf8mb4"
            if sql
            else f"SET SESSION sql_mode = '{EVENTS_SQL_MODE}', character_set_client = binary"
        )
        self._text = sql
        self._wait(_Sent((self._query(words.encode()),), len(words), None, None))

    def _query(self, statement: bytes | bytearray | memoryview) -> int:
        size = len(statement) + 1
        if size >= _FLUSH_BYTES:
            out = np.empty(_HEADER + size, np.uint8)
            out[_HEADER] = _QUERY
            out[_HEADER + 1 :] = np.frombuffer(statement, np.uint8)
            return self._command(out)
        self._outgoing += size.to_bytes(3, "little") + bytes((0, _QUERY))
        self._outgoing += statement
        if len(self._outgoing) >= _FLUSH_BYTES:
            self._flush()
        return 1

    def _command(self, out: Buffer) -> int:
        """Send ``out``, a command behind room for a packet's header; the answer's sequence."""
        self._flush()
        view, sequence = memoryview(out.data), 0
        while True:
            # A header goes where the packet before it was: that has been sent.
            size = min(len(view) - _HEADER, _MOST)
            view[:_HEADER] = (size | sequence % 256 << 24).to_bytes(_HEADER, "little")
            self._session.write(view[: _HEADER + size])
            sequence += 1
            if size < _MOST:
                return sequence % 256
            view = view[size:]

    def _flush(self) -> None:
        if self._outgoing:
            self._session.write(self._outgoing)
            self._outgoing = bytearray()

    def _wait(self, sent: _Sent) -> None:
        self.count += 1
        self._sent.append(sent)
        self._unanswered += sent.size
        while len(self._sent) > 1 and (
            len(self._sent) > _UNANSWERED or self._unanswered > _UNANSWERED_BYTES
        ):
            self._flush()
            self._answer()

    def _answer(self) -> None:
        """Read the answer to the oldest statement."""
        sent = self._sent.popleft()
        self._unanswered -= sent.size
        found, error = self._replies(sent)
        problem: Exception | None = error
        if error is None and sent.answered is not None:
            try:
                sent.answered(found)
            except TidegateError as ours:
                problem = ours
        if problem is None:
            return
        self._drain()
        if error is not None and sent.refused is not None:
            problem = sent.refused(error)
        raise problem from None

    def _replies(self, sent: _Sent) -> tuple[int, pymysql.err.Error | None]:
        found, first = 0, None
        for sequence in sent.sequences:
            try:
                found = self._session.reply(sequence)
            except pymysql.err.Error as error:
                if is_lost(error):
                    self._forget()
                    raise
                first = first or error
        return found, first

    def _drain(self) -> None:
        """Read what is still to come behind an error; it says nothing more."""
        self._flush()
        while self._sent:
            with suppress(pymysql.err.Error):
                self._replies(self._sent.popleft())
        self._unanswered = 0

    def _forget(self) -> None:
        self._sent.clear()
        self._outgoing.clear()
        self._unanswered = 0
