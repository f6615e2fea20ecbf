"""Reading a binlog file event by event, each checked, none guessed.

A file is never held whole: memory is that of its largest event. Offsets are our own, for the
32-bit next position of headers wraps past 4 GiB. Every error names the file and the offset.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from cdc.base.errors import TidegateError
from cdc.binlog.errors import EventLengthBad, EventRefused, EventTruncated, NotBinlog
from cdc.binlog.events import Dialect, Disposition, EventKind, EventType, kind_of, refuse
from cdc.binlog.format_description import FormatDescription
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, MAGIC, EventHeader, check_checksum

_ENCRYPTED_MAGIC = b"\xfdbin"


@dataclass(frozen=True, slots=True)
class Event:
    """One event. ``data`` is all of it, ``body`` what lies between header and checksum.

    ``offset`` is where it begins in ``file``; an event out of a TRANSACTION_PAYLOAD has the
    offset of that, and ``inner`` counts from 0 inside it (else -1).
    """

    file: str
    offset: int
    header: EventHeader
    kind: EventKind
    data: bytes
    trailer: int
    dialect: Dialect = Dialect.MYSQL
    inner: int = -1

    @property
    def type(self) -> EventType:
        """Its type."""
        return self.kind.type

    @property
    def body(self) -> bytes:
        """Everything behind the header, without the checksum."""
        return self.data[HEADER_LENGTH : len(self.data) - self.trailer]

    @property
    def where(self) -> str:
        """``file:offset`` for errors."""
        inside = f" (event {self.inner} inside)" if self.inner >= 0 else ""
        return f"{self.file}:{self.offset}{inside}"


class BinlogReader:
    """Iterates over the events of a file, a server's own, a relay log or one of our change log.

    ``refuse`` False yields refused events too, for those who only count. ``start`` begins at an
    event boundary behind the first event, which is read in any case. ``format`` is the
    FORMAT_DESCRIPTION in force.
    """

    def __init__(self, path: Path | str, *, refuse: bool = True, start: int = 0) -> None:
        self.path = Path(path)
        self.name = self.path.name
        self._refuse = refuse
        self._start = start
        self._file: BinaryIO = _opened(self.path)
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self._check_magic()
            self._at = len(MAGIC)
            self._first = self._read_first()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> BinlogReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[Event]:
        yield self._first
        if self._start > self._at:
            self._at = self._start
            self._file.seek(self._start)
        while self._at < self._size:
            event = self._next()
            if event.kind.disposition is Disposition.REFUSED and self._refuse:
                raise refuse(event.kind, position=event.where)
            yield event
            if event.type is EventType.MARIADB_START_ENCRYPTION:
                raise EventRefused(
                    "everything behind this event is encrypted",
                    object=event.kind.name,
                    position=event.where,
                    hint="read it from the server, which decrypts what it sends",
                )

    def _check_magic(self) -> None:
        magic = self._file.read(len(MAGIC))
        if magic == _ENCRYPTED_MAGIC:
            raise NotBinlog(
                "the file is encrypted",
                object=self.name,
                position=f"{self.name}:0",
                hint="read it from the server, which decrypts what it sends",
            )
        if magic != MAGIC:
            raise NotBinlog(
                "the file does not begin with fe 'bin'",
                object=self.name,
                position=f"{self.name}:0",
                hint="give a binlog file, not an index or a text",
            )

    def _read_first(self) -> Event:
        offset = self._at
        header, data = self._read_raw()
        if header.type_code != EventType.FORMAT_DESCRIPTION:
            raise NotBinlog(
                f"the first event is of type {header.type_code}, not FORMAT_DESCRIPTION",
                object=self.name,
                position=f"{self.name}:{offset}",
            )
        return self._format_event(offset, header, data)

    def _format_event(self, offset: int, header: EventHeader, data: bytes) -> Event:
        where = f"{self.name}:{offset}"
        try:
            self.format = FormatDescription.parse(data[HEADER_LENGTH:])
        except TidegateError as error:
            raise located(error, where) from None
        if self.format.trailer:
            check_checksum(data, position=where)
        kind = kind_of(self.format.dialect, header.type_code, position=where)
        return Event(self.name, offset, header, kind, data, CHECKSUM_LENGTH, self.format.dialect)

    def _read_raw(self) -> tuple[EventHeader, bytes]:
        left = self._size - self._at
        head = self._file.read(min(HEADER_LENGTH, left))
        if len(head) < HEADER_LENGTH:
            raise self._truncated(f"the file ends {len(head)} bytes into an event's header")
        header = EventHeader.parse(head)
        if header.length < HEADER_LENGTH:
            raise EventLengthBad(
                f"the event's length is {header.length}, less than its header",
                object=self.name,
                position=f"{self.name}:{self._at}",
                hint="the file is damaged here; take it from its source",
            )
        if header.length > left:
            raise self._truncated(
                f"the event's length is {header.length}, the file ends after {left}"
            )
        body = self._file.read(header.length - HEADER_LENGTH)
        if len(body) < header.length - HEADER_LENGTH:
            raise self._truncated("the file has become shorter while it was read")
        self._at += header.length
        return header, head + body

    def _next(self) -> Event:
        offset = self._at
        header, data = self._read_raw()
        if header.type_code == EventType.FORMAT_DESCRIPTION:
            return self._format_event(offset, header, data)
        where = f"{self.name}:{offset}"
        trailer = self.format.trailer
        if header.length < HEADER_LENGTH + trailer:
            raise EventLengthBad(
                f"the event's length is {header.length}, too short for its checksum",
                object=self.name,
                position=where,
            )
        if trailer:
            check_checksum(data, position=where)
        kind = kind_of(self.format.dialect, header.type_code, position=where)
        return Event(self.name, offset, header, kind, data, trailer, self.format.dialect)

    def _truncated(self, text: str) -> EventTruncated:
        return EventTruncated(
            text,
            object=self.name,
            position=f"{self.name}:{self._at}",
            hint="the file is damaged here, or a server is still writing it",
        )


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise NotBinlog(
            f"cannot be opened: {error.strerror}", object=str(path), hint="check the path"
        ) from None


def located(error: TidegateError, where: str) -> TidegateError:
    """The same error, with the event's place before what it said itself."""
    inside = f", {error.position}" if error.position else ""
    return type(error)(error.message, object=error.object, position=where + inside, hint=error.hint)
