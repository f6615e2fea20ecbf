"""What a folder knows of the changefeed that delivers into it.

A ledger is a folder, ``.tidegate/NAME-INSTALLATION-INCARNATION``; every record is a JSON line with
its CRC (``cdc.changelog.lines``):

======================= ====================================================================
``owner``               whose it is
``epoch``               the newest epoch; replaced atomically, by whoever takes over
``base-EPOCH``          where each destination stood when that epoch began
``slot-EPOCH-SLOT``     a line for each window of a worker: where its destinations stand then,
                        and the files that the window has made
``changes-EPOCH``       schema changes: ts and what became of it; an owner's epoch begins with all
                        that the one before it has recorded
``parts/``              files that no window has committed yet, or not yet moved to their place
======================= ====================================================================

A window is committed by its line, and by nothing else. A worker writes the line, makes it durable,
and then looks at ``epoch``: if that is not its own, the window does not count. Recovery writes its
epoch before it reads the lines, so a line that it does not read belongs to a worker that sees the
new epoch; and of lines only those count that are of the newest epoch with a ``base``. The line
names files of ``parts/``; whoever comes first, the worker or recovery, moves
them to where readers find them, whole.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc.base.ids import FeedId
from cdc.base.position import Position, Stand, stand
from cdc.base.ts import Ts
from cdc.changelog import lines
from cdc.changelog.files import replace, sync_folder, write_at
from cdc.changelog.names import TEMPORARY
from sink.contract import Destination
from sink.errors import FencedEpoch
from sink.file.errors import FileLedgerDamaged, FileLedgerLost
from sink.file.names import LEDGERS
from sink.schema_change import Recorded

ROWS, CHANGE = "rows-", "ddl-"
"""How names of parts begin: ``rows-EPOCH-…`` of a window, ``ddl-EPOCH-…`` of a schema change."""

_FORGOTTEN = 1 << 62


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a destination stands, and the table (lower-case ``schema.table``) that it is of."""

    table: str
    at: Stand

    @property
    def own(self) -> Position:
        """Where the table itself stands: it grows with each window that has rows of it."""
        return self.at.of(self.table)


@dataclass(frozen=True, slots=True)
class PartFile:
    """A file of a window: its name among the parts, and its place below the sink's folder."""

    part: str
    place: str


class FileLedger:
    """The ledger of one changefeed below a sink's folder. Raises OSError where a call fails."""

    def __init__(self, folder: Path, feed: FeedId) -> None:
        self.feed = feed
        self.root = folder
        self.path = folder / LEDGERS / feed.text
        self.parts = self.path / "parts"

    @property
    def epoch(self) -> int:
        """The newest epoch, 0 without a ledger."""
        return max((int(line["epoch"]) for line in read(self.path / "epoch")), default=0)

    def claim(self, epoch: int, *, bits: int = 0, begun: bool = False) -> None:
        """Write our epoch, unless it or a newer one is there that differs in its last bits only.

        Raises FencedEpoch if a newer one is there, or a newer incarnation, and FileLedgerLost if
        delivery has ``begun`` and the folder does not know of it. Older incarnations are ended.
        """
        others = [f for f in ledgers(self.root) if f.key[:2] == self.feed.key[:2]]
        if any(not f.upto(self.feed) for f in others):
            raise fenced(self.feed, epoch, "a later incarnation")
        if begun and not self._by_epoch("base"):
            raise FileLedgerLost(
                "the folder knows nothing of this changefeed, which has delivered already",
                object=str(self.path),
                hint="mount the folder that has it; if its files are lost, look how far their"
                " readers are, and resume with --overwrite-checkpoint-ts",
            )
        self.parts.mkdir(mode=0o755, parents=True, exist_ok=True)
        with self._locked():
            found = self.epoch
            if found >> bits > epoch >> bits:
                raise fenced(self.feed, epoch, str(found))
            if found < epoch:
                replace(self.path / "owner", lines.encode({"feed": list(self.feed.key)}))
                replace(self.path / "epoch", lines.encode({"epoch": epoch}))
        for older in others:
            if older != self.feed:
                self.of_feed(older).forget()

    def of_feed(self, feed: FeedId) -> FileLedger:
        """The ledger of another changefeed in the same folder."""
        return FileLedger(self.root, feed)

    def settle(self) -> None:
        """Put what is committed in its place, before the ledger goes."""
        self.move(self._windows()[1])

    def check(self, epoch: int, *, bits: int = 0) -> None:
        """Raises FencedEpoch unless ``epoch`` is the newest one."""
        found = self.epoch
        if found >> bits != epoch >> bits:
            raise fenced(self.feed, epoch, str(found))

    @contextmanager
    def of(self, epoch: int, *, bits: int = 0) -> Iterator[None]:
        """What fails because the ledger has gone fails with FencedEpoch."""
        try:
            yield
        except FileNotFoundError:
            self.check(epoch, bits=bits)
            raise

    def begin(self, epoch: int) -> dict[Destination, Reached]:
        """Where each destination stands, with nothing of older epochs left; after ``claim``."""
        reached, made = self._windows()
        self.move(made)
        text = b"".join([lines.encode({"begins": epoch}), *map(_reached_line, reached.items())])
        replace(self.path / f"base-{epoch}", text)
        self.end_windows_before(epoch)
        return reached

    def end_windows_before(self, epoch: int) -> None:
        """Remove what older epochs have of windows."""
        for kind in ("base", "slot"):
            for of, files in self._by_epoch(kind).items():
                if of < epoch:
                    for file in files:
                        file.unlink()
        self.clear(ROWS, epoch)

    def reached(self) -> dict[Destination, Reached]:
        """Where each destination stands; nothing is taken over."""
        return self._windows()[0]

    def move(self, made: Sequence[PartFile]) -> list[PartFile]:
        """Put files of committed windows in their places; those that were not there any more.

        Of those somebody else has done it, and readers may have taken them since.
        """
        gone, folders = [], set()
        mode = stat.S_IMODE(self.root.stat().st_mode)
        for file in made:
            place = self.root / file.place
            self._folder(place.parent, mode)
            try:
                os.chmod(self.parts / file.part, mode & 0o666)
                os.replace(self.parts / file.part, place)
            except FileNotFoundError:
                gone.append(file)
            folders.add(place.parent)
        for touched in folders:
            sync_folder(touched)
        return gone

    def _folder(self, path: Path, mode: int) -> None:
        """Make a table's folder; who may enter it is said by the sink's folder, not by a umask."""
        for new in (path.parent, path):
            if not new.is_dir():
                new.mkdir()
                new.chmod(mode)
                sync_folder(new.parent)

    def clear(self, pattern: str, epoch: int) -> None:
        """Remove parts of this kind, ``EPOCH-…`` behind ``pattern``, that are of older epochs."""
        for left in self.parts.glob(f"{pattern}*"):
            if int(left.name.removeprefix(pattern).split("-")[0]) < epoch:
                left.unlink()

    def begin_changes(self, epoch: int) -> dict[Ts, Recorded]:
        """Schema changes that are recorded, from now on in a file of this epoch."""
        found = {int(c["ts"]): c["state"] for f in self._newest("changes") for c in read(f)}
        states = {ts: Recorded(state) for ts, state in found.items() if state is not None}
        text = [lines.encode({"ts": ts, "state": state}) for ts, state in states.items()]
        self.renew_changes(epoch, b"".join(text))
        return states

    def renew_changes(self, epoch: int, text: bytes) -> None:
        """Schema changes are recorded in a file of this epoch from now on, behind ``text``."""
        replace(self.path / f"changes-{epoch}", text)
        for of, files in self._by_epoch("changes").items():
            if of != epoch:
                for file in files:
                    file.unlink()

    def record(self, epoch: int, states: Mapping[Ts, Recorded | None]) -> None:
        """Record schema changes durably; None takes a record away. After ``begin_changes``.

        Raises FileNotFoundError if a newer epoch has begun.
        """
        text = b"".join(lines.encode({"ts": ts, "state": s}) for ts, s in states.items())
        with Journal(self.path / f"changes-{epoch}", new=False) as journal:
            journal.append(text)

    def forget(self) -> None:
        """Fence everyone, and remove the ledger; files of messages stay."""
        if self.path.is_dir():
            with self._locked():
                replace(self.path / "epoch", lines.encode({"epoch": _FORGOTTEN}))
                with suppress(FileLedgerDamaged):
                    self.settle()
            shutil.rmtree(self.path)
            sync_folder(self.path.parent)

    def _windows(self) -> tuple[dict[Destination, Reached], list[PartFile]]:
        found: dict[Destination, Reached] = {}
        made: list[PartFile] = []
        for line in self.counted():
            made += [PartFile(*names) for names in line.get("files", ())]
            for name, number, table, ts, row, held in line.get("reached", ()):
                at = Reached(table, Stand.from_json(int(ts), int(row), held))
                known = found.get((name, number))
                if known is None or (at.own, at.at) > (known.own, known.at):
                    found[name, number] = at
        return found, made

    def counted(self) -> list[dict[str, Any]]:
        """The lines that count, read again if an epoch begins meanwhile: that removes files."""
        while True:
            begun = self._newest("base")
            found = [line for file in self.counting() for line in read(file)]
            if begun == self._newest("base"):
                return found

    def counting(self) -> list[Path]:
        """The files whose lines count: of the newest epoch that has begun."""
        bases = self._by_epoch("base")
        if not bases:
            return []
        newest = max(bases)
        return [*bases[newest], *sorted(self._by_epoch("slot").get(newest, ()))]

    def _newest(self, kind: str) -> list[Path]:
        every = self._by_epoch(kind)
        return every[max(every)] if every else []

    def _by_epoch(self, kind: str) -> dict[int, list[Path]]:
        """Files of one kind by epoch. What a crash has left of a file being written is none."""
        found: dict[int, list[Path]] = {}
        for file in self.path.glob(f"{kind}-*"):
            if file.suffix != TEMPORARY:
                found.setdefault(int(file.name.split("-")[1]), []).append(file)
        return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


class Journal:
    """A file of lines that grows, of one writer; a torn line of a crash is overwritten.

    One that is not ``new`` must be there.
    """

    def __init__(self, path: Path, *, new: bool = True) -> None:
        new = new and not path.exists()
        self._path = path
        self._fd = os.open(path, os.O_RDWR | (os.O_CREAT if new else 0) | os.O_CLOEXEC, 0o644)
        data = path.read_bytes()
        self._end = data.rfind(b"\n") + 1
        if new:
            sync_folder(path.parent)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, text: bytes) -> None:
        """Returns when it is durable."""
        os.ftruncate(self._fd, self._end)
        write_at(self._fd, memoryview(text), self._end)
        os.fsync(self._fd)
        self._end += len(text)

    @property
    def size(self) -> int:
        """Bytes of its lines."""
        return self._end

    def renew(self, text: bytes) -> None:
        """Put these lines in the place of all others, at once."""
        replace(self._path, text)
        os.close(self._fd)
        self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC, 0o644)
        self._end = len(text)

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def window_line(reached: Mapping[Destination, Reached], made: Sequence[PartFile]) -> bytes:
    """The line that commits a window."""
    files = [[file.part, file.place] for file in made]
    return lines.encode({"reached": [entry(d, at) for d, at in reached.items()], "files": files})


def ledgers(folder: Path) -> Collection[FeedId]:
    """Whose ledgers a sink's folder has."""
    found = []
    for owner in folder.glob(f"{LEDGERS}/*/owner"):
        for line in read(owner):
            installation, name, incarnation = line["feed"]
            found.append(FeedId(installation, name, incarnation))
    return found


def _reached_line(known: tuple[Destination, Reached]) -> bytes:
    return lines.encode({"reached": [entry(*known)]})


def entry(destination: Destination, reached: Reached) -> list[Any]:
    at = stand(reached.at)
    return [*destination, reached.table, at.ts, at.row, at.to_json()]


def read(file: Path) -> list[dict[str, Any]]:
    """The objects of a file, [] if there is none; a torn line at its end never counted."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return []
    found = []
    for line in lines.scan(data):
        if line.body is None:
            raise FileLedgerDamaged(
                f"bytes {line.start} to {line.end} are not what was written",
                object=str(file),
                hint="restore the folder; if that cannot be done, resume with"
                " --overwrite-checkpoint-ts from where its readers are",
            )
        found.append(line.parse())
    return found


def fenced(feed: FeedId, epoch: int, found: str) -> FencedEpoch:
    return FencedEpoch(
        f"our epoch is {epoch}, the ledger's is {found}",
        object=f"changefeed {feed}",
        hint="another server has taken over this changefeed; nothing to do here",
    )
