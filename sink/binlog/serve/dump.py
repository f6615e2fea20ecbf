"""The events of the files from one place on, as they come."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cdc.binlog.control import Rotate
from cdc.binlog.events import EventType
from cdc.binlog.header import (
    CHECKSUM_LENGTH,
    FLAG_ARTIFICIAL,
    HEADER_LENGTH,
    MAGIC,
    EventHeader,
    checksum,
)
from cdc.binlog.writer import build_event
from sink.binlog.serve.places import GTIDS, Had, head

_T = EventType
_LENGTH, _LENGTH_AT = struct.Struct("<I"), 9
_READ_BYTES = 1 << 20
_LOOK_S = 0.05
_HEADS = frozenset({_T.FORMAT_DESCRIPTION, _T.PREVIOUS_GTIDS, _T.MARIADB_GTID_LIST})


class FileGone(Exception):
    """A file that the replica asks for is not there (any more)."""


class Dump:
    """Events for one replica; ``files`` lists those that there are, ``None`` means: nothing new.

    ``had``: transactions to pass over. Each file is announced as servers do it, by a ROTATE that
    is in no file, and by its FORMAT_DESCRIPTION. Unless checksums are ``announced`` the very first
    ROTATE has none, as with servers: what follows is read as FORMAT_DESCRIPTION says.
    """

    def __init__(
        self,
        files: Callable[[], list[Path]],
        server_id: int,
        *,
        had: Had | None = None,
        heartbeat_s: float = 0,
        announced: bool = True,
    ) -> None:
        self._files = files
        self._server_id = server_id
        self._had = had
        self._heartbeat_s = heartbeat_s
        self._checksums = announced
        self._passes = False

    def events(self, file: Path, at: int, *, wait: bool) -> Iterator[list[bytes]]:
        """All events from ``at`` of a file on; without ``wait`` to the end of the last one.

        They come as many at a time as are there, up to a MiB or a single larger one.
        """
        while True:
            begins = [self._made(_T.ROTATE, Rotate(max(at, len(MAGIC)), file.name).encode())]
            if at > len(MAGIC):
                begins.append(_nowhere(head(file)[0]))
            yield begins
            self._checksums = True
            yield from self._of(file, max(at, len(MAGIC)), wait=wait)
            following = self._behind(file)
            if following is None:
                return
            file, at = following, len(MAGIC)

    def _of(self, file: Path, at: int, *, wait: bool) -> Iterator[list[bytes]]:
        """Events of one file, until it is followed by another."""
        quiet, following = time.monotonic(), None
        try:
            opened = file.open("rb")
        except FileNotFoundError:
            raise FileGone(f"{file.name} is not there any more") from None
        with opened:
            while True:
                # Who has seen the next one knows that this one is complete.
                last = self._behind(file) is None
                opened.seek(at)
                data = opened.read(_READ_BYTES)
                length = EventHeader.parse(data).length if len(data) >= HEADER_LENGTH else 0
                if length > len(data):
                    data += opened.read(length - len(data))
                whole = _whole(data)
                if whole and whole[-1][4] == _T.ROTATE:
                    following = Rotate.parse(whole[-1][HEADER_LENGTH:-CHECKSUM_LENGTH])
                at += sum(map(len, whole))
                if sent := whole if self._had is None else list(filter(self._sends, whole)):
                    yield sent
                if whole:
                    quiet = time.monotonic()
                elif not last or not wait:
                    return
                else:
                    if self._heartbeat_s and time.monotonic() - quiet >= self._heartbeat_s:
                        quiet = time.monotonic()
                        # Who has read that another file follows stands at its begin.
                        yield [self._heartbeat(following or Rotate(at, file.name))]
                    time.sleep(_LOOK_S)

    def _sends(self, event: bytes) -> bool:
        code = event[4]
        if code in GTIDS and self._had is not None:
            body = event[HEADER_LENGTH:-CHECKSUM_LENGTH]
            has = self._had.has(EventHeader.parse(event), body)
            # One without a name belongs to the one before it.
            self._passes = self._passes if has is None else has
        return code in _HEADS or code == _T.ROTATE or not self._passes

    def _behind(self, file: Path) -> Path | None:
        listed = self._files()
        if file not in listed:
            raise FileGone(f"{file.name} is not there any more")
        return next(iter(listed[listed.index(file) + 1 :]), None)

    def _heartbeat(self, at: Rotate) -> bytes:
        return self._made(_T.HEARTBEAT, at.file.encode(), at.position)

    def _made(self, code: int, body: bytes, at: int = 0) -> bytes:
        flags = FLAG_ARTIFICIAL if code == _T.ROTATE else 0
        return build_event(
            code, body, server_id=self._server_id, next_position=at & 0xFFFFFFFF, flags=flags,
            crc32=self._checksums,
        )  # fmt: skip


def _whole(data: bytes) -> list[bytes]:
    """The events that are complete."""
    found, at = [], 0
    while at + HEADER_LENGTH <= len(data):
        (length,) = _LENGTH.unpack_from(data, at + _LENGTH_AT)
        if length < HEADER_LENGTH or at + length > len(data):
            break
        found.append(data[at : at + length])
        at += length
    return found


def _nowhere(event: bytes) -> bytes:
    """A FORMAT_DESCRIPTION for who begins behind it: it moves no position."""
    changed = event[:13] + bytes(4) + event[17:-CHECKSUM_LENGTH]
    return changed + checksum(changed)
