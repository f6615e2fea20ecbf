"""The xids of prepared XA transactions: the one dictionary of a log whose entries die.

They lie in a file that only the writer reads: JSON lines with a CRC, each durable before
the commit whose index rows have its number. A transaction's line goes once it has ended: the file
is rewritten where most of it is dead, and whenever the log is opened for writing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cdc.changelog import files, lines, names
from cdc.changelog.errors import LogCorrupt

# Below this a file is not worth a rewrite.
_SMALL = 64 << 10
# The index has 31 bits for one.
_NUMBERS = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Prepared:
    """An xid, and when (wall clock) it was first seen; 0 if an older version has written it."""

    text: str
    since_ms: int

    def line(self, number: int) -> bytes:
        """Its line in the file."""
        return lines.encode({"xid": number, "text": self.text, "since_ms": self.since_ms})


@dataclass(frozen=True, slots=True)
class Pinned:
    """A prepared transaction, and how many bytes of the log stay for its sake."""

    xid: str
    since_ms: int
    log_bytes: int


class Xids:
    """Both directions of the dictionary, and its file.

    A number is not used again while anything has it, nor before 31 bits of them are used up; the
    book of prepared transactions takes rows in the log's order.
    """

    def __init__(
        self, folder: Path, live: Collection[int], legacy: dict[int, str] | None = None
    ) -> None:
        """Read the file; ``live`` are prepared now, the rest goes.

        ``legacy``: those of a log that an older version wrote. Raises LogCorrupt if one is missing.
        """
        self._path = folder / names.XIDS
        found = {number: Prepared(text, 0) for number, text in (legacy or {}).items()}
        found |= _read(self._path)
        missing = sorted(set(live) - found.keys())
        if missing:
            raise LogCorrupt(
                f"the xid of prepared transaction {missing[0]} is not there",
                object=names.XIDS,
                position=f"{names.XIDS}:0",
                hint="restore the file from a copy, or remove the log and pull anew",
            )
        self.prepared = {number: found[number] for number in live}
        self._numbers = {p.text: number for number, p in self.prepared.items()}
        self._next = max(found, default=-1) + 1
        self._unwritten: list[bytes] = []
        # Ended since the last commit was planned: what is durable may still have them as prepared.
        self._ended: dict[int, Prepared] = {}
        self._fd = -1
        self._length = 0
        self._replace(self._lines(self.prepared))

    def number(self, text: str, now_ms: int) -> int:
        """The number of an xid that is in use, a new one if it is not."""
        known = self._numbers.get(text)
        if known is not None:
            return known
        number = self.free(1)
        self.take(number + 1, {number: text}, now_ms)
        return number

    def free(self, count: int) -> int:
        """The first of ``count`` numbers, one behind the other, that nothing in use has."""
        while self._next + count > _NUMBERS or any(
            self._next <= number < self._next + count for number in self.prepared
        ):
            # Numbers are 31 bits; what ended long ago is not meant by any row that is open.
            later = [n for n in self.prepared if self._next <= n < self._next + count]
            self._next = max(later) + 1 if later else 0
        return self._next

    def take(self, end: int, new: Mapping[int, str], now_ms: int) -> None:
        """All free numbers below ``end`` are used; ``new``: those that are still in use."""
        self._next = end
        for number, text in new.items():
            self.prepared[number] = Prepared(text, now_ms)
            self._numbers[text] = number
            self._unwritten.append(self.prepared[number].line(number))

    def end(self, numbers: Iterable[int]) -> None:
        """These transactions have ended: the same xid is another transaction from now on."""
        for number in numbers:
            one = self.prepared.pop(number, None)
            if one is not None:
                self._ended[number] = one
                if self._numbers.get(one.text) == number:
                    del self._numbers[one.text]

    def write(self) -> list[Callable[[], None]]:
        """Write what is new, as part of a commit; what is left to do to make it durable."""
        if not self._unwritten:
            self._ended.clear()
            return []
        data = b"".join(self._unwritten)
        self._unwritten.clear()
        kept = {**self._ended, **self.prepared}
        self._ended = {}
        if self._length + len(data) > _SMALL:
            whole = self._lines(kept)
            if 2 * len(whole) < self._length + len(data):
                return [partial(self._replace, whole)]
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            files.sync_folder(self._path.parent)
        files.write_at(self._fd, memoryview(data), self._length)
        self._length += len(data)
        return [partial(os.fdatasync, self._fd)]

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _replace(self, data: bytes) -> None:
        if data or self._path.exists():
            files.replace(self._path, data)
        self.close()
        self._length = len(data)

    @staticmethod
    def _lines(prepared: dict[int, Prepared]) -> bytes:
        return b"".join(p.line(number) for number, p in sorted(prepared.items()))


def _read(path: Path) -> dict[int, Prepared]:
    """All lines that are whole: one that a kill has cut or torn belongs to no commit."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    found = {}
    for line in lines.scan(data):
        if line.body is not None:
            value = line.parse()
            found[int(value["xid"])] = Prepared(str(value["text"]), int(value["since_ms"]))
    return found
