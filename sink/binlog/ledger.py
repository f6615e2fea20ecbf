"""What the folder of a binlog sink knows: the ledger of a file sink, with one stream.

Lines are those of ``sink.file.ledger``; those of windows and of schema changes have two members
more: ``pieces``, the bytes that they add to the stream, each with the file and the offset at which
it belongs, and ``tail``, where the stream ends with them.

A piece is put in its place behind its line, by whoever comes first: its writer, the next recovery,
or the next owner. Since the line says where it lies, all of them write the same bytes to the same
place. So a file never has bytes that do not count, and one that was torn by a crash is completed.
Windows and schema changes follow one another, as the stream is one: a schema change waits for all
rows before it, and all rows behind it wait for the change.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdc.base.ids import FeedId
from cdc.base.position import Stand
from cdc.base.ts import Ts
from cdc.changelog import lines
from cdc.changelog.files import replace, sync_folder, write_at
from sink.binlog.errors import BinlogFileLost
from sink.binlog.tail import Piece, Tail
from sink.contract import Destination
from sink.file.ledger import FileLedger, Journal, Reached, entry, read
from sink.schema_change import Recorded

_COPY_BYTES = 4 << 20


class StreamLedger(FileLedger):
    """The ledger of one changefeed; files are ``NAME.NNNNNN`` in the sink's folder."""

    def __init__(self, folder: Path, feed: FeedId, name: str) -> None:
        super().__init__(folder, feed)
        self.name = name
        self._pattern = re.compile(re.escape(name) + r"\.(\d{6,})\Z")
        self._followed: dict[str, tuple[int, int]] = {}
        self._tail = Tail()

    def of_feed(self, feed: FeedId) -> StreamLedger:
        """The ledger of another changefeed in the same folder."""
        return StreamLedger(self.root, feed, self.name)

    def file_name(self, number: int) -> str:
        """The name of a file."""
        return f"{self.name}.{number:06d}"

    def numbers(self) -> list[int]:
        """Numbers of the files that are there, rising."""
        found = (self._pattern.match(path.name) for path in self.root.iterdir())
        return sorted(int(name[1]) for name in found if name)

    def first_number(self) -> int:
        """The number of a stream's first file: files of an earlier incarnation stay."""
        return max(self.numbers(), default=0) + 1

    def begin(self, epoch: int) -> dict[Destination, Reached]:
        """Where the stream stands, complete, with nothing of older epochs left; after ``claim``."""
        counted = self.counted()
        self.place(_pieces(counted))
        reached = _reached(counted)
        text: list[dict[str, Any]] = [
            {"begins": epoch},
            {"reached": [entry(*known) for known in reached.items()]},
        ]
        text.append({"tail": _tail(counted).to_json()})
        replace(self.path / f"base-{epoch}", b"".join(lines.encode(line) for line in text))
        self.end_windows_before(epoch)
        return reached

    def reached(self) -> dict[Destination, Reached]:
        """Where the stream stands; nothing is taken over."""
        return _reached(self.counted())

    def settle(self) -> None:
        """Put what is committed in its place."""
        self.place(_pieces(self.counted()))

    def tail(self) -> Tail:
        """Where the stream ends now; what was read before is not read again."""
        for file in self.counting():
            with file.open("rb") as opened:
                inode = os.fstat(opened.fileno()).st_ino
                known, at = self._followed.get(file.name, (inode, 0))
                opened.seek(at if known == inode else 0)
                start = opened.tell()
                data = opened.read()
            whole = data.rfind(b"\n") + 1
            self._followed[file.name] = inode, start + whole
            found = [line.parse() for line in lines.scan(data[:whole]) if line.body is not None]
            self._tail = max(self._tail, _tail(found), key=lambda tail: tail.place)
        return self._tail

    def begin_changes(self, epoch: int) -> dict[Ts, Recorded]:
        """Schema changes that are recorded, from now on in a file of this epoch."""
        counted = [line for file in self._newest("changes") for line in read(file)]
        found = {int(c["ts"]): c["state"] for c in counted if "ts" in c}
        states = {ts: Recorded(state) for ts, state in found.items() if state is not None}
        text: list[dict[str, Any]] = [{"tail": _tail(counted).to_json()}]
        text += [{"ts": ts, "state": state} for ts, state in states.items()]
        self.renew_changes(epoch, b"".join(lines.encode(line) for line in text))
        return states

    @contextmanager
    def holding(self, epoch: int, *, bits: int = 0) -> Iterator[None]:
        """Nobody takes over meanwhile. Raises FencedEpoch if somebody has."""
        with self._locked():
            self.check(epoch, bits=bits)
            yield

    def record_change(self, epoch: int, ts: Ts, tail: Tail, pieces: Sequence[Piece]) -> None:
        """Record that a schema change is done by these pieces. After ``begin_changes``."""
        line = {"ts": ts, "state": Recorded.DONE} | stream_members(tail, pieces)
        with Journal(self.path / f"changes-{epoch}", new=False) as journal:
            journal.append(lines.encode(line))

    def place(self, pieces: Sequence[Piece]) -> None:
        """Put pieces of committed lines where they belong, in this order.

        Of those whose part is gone somebody else has done it.
        """
        mode = stat.S_IMODE(self.root.stat().st_mode) & 0o666
        begun = False
        for piece in pieces:
            part = self.parts / piece.part
            if piece.offset == 0:
                try:
                    os.chmod(part, mode)
                    os.replace(part, self.root / self.file_name(piece.file))
                except FileNotFoundError:
                    continue
                sync_folder(self.root)
                begun = True
            else:
                self._append(part, piece)
        if begun:
            self.write_index()

    def _append(self, part: Path, piece: Piece) -> None:
        file = self.root / self.file_name(piece.file)
        try:
            source = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            target = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
            try:
                if os.fstat(target).st_size < piece.offset:
                    raise BinlogFileLost(
                        f"it ends before byte {piece.offset}, up to where it was written",
                        object=str(file),
                        hint="restore the file; if that cannot be done, resume with"
                        " --overwrite-checkpoint-ts from where its readers are",
                    )
                done = 0
                while done < piece.length:
                    data = os.pread(source, min(_COPY_BYTES, piece.length - done), done)
                    write_at(target, memoryview(data), piece.offset + done)
                    done += len(data) or piece.length
                os.fsync(target)
            finally:
                os.close(target)
        finally:
            os.close(source)
        part.unlink(missing_ok=True)

    def write_index(self) -> None:
        """Write the list of files, as servers do: ``NAME.index``, a line for each."""
        listed = "".join(f"./{self.file_name(number)}\n" for number in self.numbers())
        replace(self.root / f"{self.name}.index", listed.encode())
        os.chmod(self.root / f"{self.name}.index", stat.S_IMODE(self.root.stat().st_mode) & 0o666)

    def purge(self, older_s: float, last: int) -> None:
        """Remove files before number ``last`` that are older than so many seconds, oldest first."""
        limit = time.time() - older_s
        gone = []
        for number in self.numbers():
            file = self.root / self.file_name(number)
            if number >= last or file.stat().st_mtime > limit:
                break
            gone.append(file)
        for file in gone:
            file.unlink(missing_ok=True)
        if gone:
            sync_folder(self.root)
            self.write_index()

    def counting(self) -> list[Path]:
        """The files whose lines count: of the newest epoch that has begun, and of its owner's."""
        return [*super().counting(), *self._newest("changes")]


def stream_members(tail: Tail, pieces: Sequence[Piece]) -> dict[str, Any]:
    """What a line says of the stream; nothing if it adds nothing."""
    if not pieces:
        return {}
    listed = [[p.part, p.file, p.offset, p.length] for p in pieces]
    return {"tail": tail.to_json(), "pieces": listed}


def window_line(
    reached: Mapping[Destination, Reached], tail: Tail, pieces: Sequence[Piece]
) -> bytes:
    """The line that commits a window."""
    told = {"reached": [entry(*known) for known in reached.items()]}
    return lines.encode(told | stream_members(tail, pieces))


def renewed_line(reached: Mapping[Destination, Reached], tail: Tail) -> bytes:
    """The line that stands for all of a worker's windows, whose pieces are in their places."""
    told = {"reached": [entry(*known) for known in reached.items()], "tail": tail.to_json()}
    return lines.encode(told)


def _tail(counted: Sequence[Mapping[str, Any]]) -> Tail:
    tails = (Tail.from_json(line["tail"]) for line in counted if "tail" in line)
    return max(tails, key=lambda tail: tail.place, default=Tail())


def _pieces(counted: Sequence[Mapping[str, Any]]) -> list[Piece]:
    listed = (Piece(*piece) for line in counted for piece in line.get("pieces", ()))
    return sorted(listed, key=lambda piece: (piece.file, piece.offset))


def _reached(counted: Sequence[Mapping[str, Any]]) -> dict[Destination, Reached]:
    found: dict[Destination, Reached] = {}
    for line in counted:
        for name, number, table, ts, row, held in line.get("reached", ()):
            at = Reached(table, Stand.from_json(int(ts), int(row), held))
            known = found.get((name, number))
            if known is None or at.at > known.at:
                found[name, number] = at
    return found
