"""A copy of a log's files on a worker's host, filled from the capture as they are read.

Workers of one executor share it. It holds no byte that is not committed, so what it has never
changes; whether it is what was written, its readers check as they check the log itself.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cdc.changelog import lines, names
from cdc.changelog.errors import LogCorrupt, LogMissing
from cdc.changelog.files import write_at
from cdc.changelog.remote import blocks
from cdc.changelog.remote.access import LogAccess
from cdc.changelog.remote.cache import CacheRoom
from cdc.changelog.remote.connection import LogConnection
from cdc.changelog.state import SegmentInfo

_LOCK = "lock"
# Names a manifest by its first line, which begins so and has the CRC of the line in it.
_TAG = slice(len('{"crc32":"'), len('{"crc32":"') + 8)


class LogMirror:
    """Fills ``folder`` with files of the log that the endpoint calls ``name``.

    Raises LogUnreachable, LogAccessRefused or LogEndpointForeign.
    """

    def __init__(self, connection: LogConnection, room: CacheRoom, name: str) -> None:
        self.connection = connection
        self._room = room
        self._name = name
        access = connection.access
        key = f"{access.host}:{access.port}\n{access.log}\n{name}"
        self.folder = room.folder / hashlib.sha256(key.encode()).hexdigest()[:24]
        (self.folder / names.SCHEMA_FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._held: dict[int, int] = {}

    @classmethod
    def open(cls, access: LogAccess, log_folder: str, cache: Path) -> LogMirror:
        """Of a log of the capture's, by its folder there; copies lie below ``cache``."""
        room = CacheRoom(cache, access.cache_bytes)
        return cls(LogConnection(access), room, access.name(log_folder))

    def manifest(self) -> None:
        """As of :class:`LogFiles`. Raises LogMissing, LogCorrupt."""
        path = self.folder / names.MANIFEST
        with self._locked():
            begin, tag = _standing(path)
            try:
                other, data = self._tail(names.MANIFEST, begin, tag)
            except FileNotFoundError:
                raise LogMissing(
                    "the capture has no such change log",
                    object=self._name,
                    hint="wait until the upstream is pulled",
                ) from None
            if other:
                _replace(path, data)
            elif data:
                _append(path, begin, data)

    def _tail(self, name: str, begin: int, tag: str) -> tuple[bool, bytes]:
        """Complete lines behind ``begin``, each as it was written."""
        for attempt in (0, 1):
            other, data = self.connection.tail(f"{self._name}/{name}", begin, tag)
            data = data[: data.rfind(b"\n") + 1]
            bad = _damaged_at(data)
            if bad is None:
                return other, data
            if attempt:
                raise _damaged(name, bad + (0 if other else begin))
        raise AssertionError

    def grown(self, name: str, length: int) -> None:
        """As of :class:`LogFiles`."""
        path = self.folder / name
        if _size(path) >= length:
            return
        with self._locked():
            begin = _size(path)
            if begin < length:
                data = self._part(name, begin, length)
                if name == names.TABLES and (bad := _damaged_at(data)) is not None:
                    data = self._part(name, begin, length)
                    if (bad := _damaged_at(data)) is not None:
                        raise _damaged(name, begin + bad)
                _append(path, begin, data)

    def _part(self, name: str, lo: int, hi: int) -> bytes:
        data = bytearray(hi - lo)

        def take(at: int, piece: memoryview) -> None:
            data[at - lo : at - lo + len(piece)] = piece

        self.connection.part(f"{self._name}/{name}", lo, hi, take)
        return bytes(data)

    def whole(self, name: str) -> None:
        """As of :class:`LogFiles`. Raises LogCorrupt."""
        path = self.folder / name
        if name.endswith(".json") and _size(path):
            # A schema snapshot is never another one.
            return
        try:
            data = self.connection.whole(f"{self._name}/{name}")
            if _damaged_at(data) is not None:
                data = self.connection.whole(f"{self._name}/{name}")
        except FileNotFoundError:
            path.unlink(missing_ok=True)
            return
        if (bad := _damaged_at(data)) is not None:
            raise _damaged(name, bad)
        with self._locked():
            _replace(path, data)

    def snapshots(self) -> None:
        """As of :class:`LogFiles`; a snapshot that is new is an empty file until it is read."""
        data = self.connection.whole(f"{self._name}/{names.SCHEMA_FOLDER}/")
        listed = {str(name) for name in json.loads(data)}
        folder = self.folder / names.SCHEMA_FOLDER
        with self._locked():
            for known in {path.name for path in folder.glob("*.json")} - listed:
                (folder / known).unlink(missing_ok=True)
            for name in listed:
                if name.endswith(".json"):
                    (folder / Path(name).name).touch(0o600)

    def ranges(
        self, info: SegmentInfo, offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> None:
        """As of :class:`LogFiles`. The segment stays until :meth:`forget_before` or the end."""
        name = names.data_name(info.number)
        data, have_path = self.folder / name, self._have_path(info.number)
        if info.number not in self._held:
            self._held[info.number] = self._room.hold(data)
        fd = self._held[info.number]
        if os.fstat(fd).st_size >= info.data and not blocks.lacking(
            _read_have(have_path, info.data), offsets, lengths, info.data
        ):
            return
        with _flock(have_path) as have_fd:
            if os.fstat(fd).st_size < info.data:
                os.ftruncate(fd, info.data)
            have = _read_have(have_path, info.data)
            for lo, hi in blocks.lacking(have, offsets, lengths, info.data):
                self.connection.part(
                    f"{self._name}/{name}", lo, hi, lambda at, piece: write_at(fd, piece, at)
                )
                blocks.filled(have, lo, hi)
                os.pwrite(have_fd, have.tobytes(), 0)
                self._room.taken(hi - lo)
        self._room.make()

    def again(self, name: str) -> bool:
        """As of :class:`LogFiles`: what lay on the way may have been damaged there."""
        number = names.segment_of(name)
        if number is not None and name == names.data_name(number):
            with _flock(self._have_path(number)) as have_fd:
                os.ftruncate(have_fd, 0)
        else:
            with self._locked():
                (self.folder / name).unlink(missing_ok=True)
        return True

    def beside(self, folder: str) -> LogMirror:
        """As of :class:`LogFiles`."""
        name = posixpath.normpath(posixpath.join(self._name, folder))
        return LogMirror(self.connection, self._room, name)

    def forget_before(self, segment: int) -> None:
        """As of :class:`LogFiles`."""
        for number in [n for n in self._held if n < segment]:
            os.close(self._held.pop(number))

    def close(self) -> None:
        """As of :class:`LogFiles`."""
        self.forget_before(1 << 62)
        self.connection.close()

    def _have_path(self, number: int) -> Path:
        return self.folder / f"{names.data_name(number)}.have"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _flock(self.folder / _LOCK):
            yield


def _standing(path: Path) -> tuple[int, str]:
    """How long a manifest is, and its tag; ``(0, "")`` if there is none."""
    try:
        with path.open("rb") as file:
            head = file.read(_TAG.stop)
            return os.fstat(file.fileno()).st_size, tag_of(head)
    except FileNotFoundError:
        return 0, ""


def tag_of(head: bytes) -> str:
    """The tag of a manifest that begins so: another one has another first line."""
    return head[_TAG].decode("ascii", "replace")


def _damaged_at(data: bytes) -> int | None:
    """Where the first line lies that is not as it was written; None if all are right."""
    end = 0
    for line in lines.scan(data):
        if line.body is None:
            return line.start
        end = line.end
    return end if end < len(data) else None


def _damaged(name: str, offset: int) -> LogCorrupt:
    return LogCorrupt(
        "a line has a wrong CRC, also when it is read again",
        object=name,
        position=f"{name}:{offset}",
        hint="restore the file from a copy, or remove the log and pull the upstream anew",
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(path.name + names.TEMPORARY)
    beside.write_bytes(data)
    beside.replace(path)


def _append(path: Path, begin: int, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        write_at(fd, memoryview(data), begin)
    finally:
        os.close(fd)


def _read_have(path: Path, length: int) -> blocks.Have:
    have = np.zeros(blocks.blocks(length), np.uint32)
    with suppress(FileNotFoundError):
        known = np.frombuffer(path.read_bytes(), np.uint32)[: len(have)]
        have[: len(known)] = known
    return have


@contextmanager
def _flock(path: Path) -> Iterator[int]:
    """Hold the file exclusively; its descriptor."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)
