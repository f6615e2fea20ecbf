"""One side's rows of a table: digests, hashes and values."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from cdc.base.errors import DefiniteError
from cdc.verify.documents import canonical
from cdc.verify.keys import Key, Range
from cdc.verify.layout import UNHASHED, ComparedColumns
from cdc.verify.report import short
from cdc.verify.sessions import Row, Sql

_AT_ONCE = 100


class RowNotHashed(DefiniteError):
    """A server cannot make the text of a row, so that the row cannot be compared."""

    code = "TG:ErrVerifyRowTooLarge"


@dataclass(frozen=True, slots=True)
class Digest:
    """How many rows, and the sum of their hashes."""

    count: int = 0
    sum: int = 0


@dataclass(frozen=True, slots=True)
class Detail:
    """A row for people: its hash, the texts that are compared, and what is shown of them."""

    hash: int
    key: Key
    texts: tuple[str, ...]
    shown: tuple[str | None, ...]


class Side(Protocol):
    """The rows of a table, or of the tables that are one at the target."""

    def bound(self, range_: Range, rows: int) -> Key | None:
        """The key of about row number ``rows`` of a range; None if it has fewer."""

    def digest(self, range_: Range) -> Digest:
        """Count and sum of a range."""

    def rows_in(self, range_: Range) -> dict[Key, int]:
        """Hashes of a range by key."""

    def rows_of(self, wanted: Iterable[Key]) -> dict[Key, int]:
        """Hashes of single keys, those that are there."""

    def buckets(self, count: int) -> dict[int, Digest]:
        """Count and sum of each bucket that has rows: of the rows whose hash is it modulo."""

    def hashes_in(self, buckets: Collection[int], count: int) -> dict[int, int]:
        """How many rows have each hash, in some of ``count`` buckets."""

    def counts_of(self, hashes: Collection[int]) -> dict[int, int]:
        """How many rows have each of some hashes, of those that are there."""

    def details_of(self, wanted: Sequence[Key]) -> dict[Key, Detail]:
        """Rows of single keys."""

    def details_where(self, hashes: Collection[int]) -> list[Detail]:
        """Rows of some hashes, each as often as it is there."""


class TableSide:
    """A table on one server, in the snapshot that its session has open."""

    def __init__(self, session: Sql, layout: ComparedColumns) -> None:
        self._session = session
        self._layout = layout

    def bound(self, range_: Range, rows: int) -> Key | None:
        """The key of row number ``rows`` of a range; None if it has fewer."""
        found = self._session.rows(self._layout.bound(range_, rows))
        return _cells(found[0]) if found else None

    def digest(self, range_: Range) -> Digest:
        """Count and sum of a range."""
        if self._layout.loose:
            hashes = self.rows_in(range_).values()
            return Digest(len(hashes), sum(hashes))
        count, total = self._session.rows(self._layout.digest(range_))[0]
        return self._checked(int(count), int(total))

    def rows_in(self, range_: Range) -> dict[Key, int]:
        """Hashes of a range by key."""
        return self._hashes(self._layout.rows_in(range_))

    def rows_of(self, wanted: Iterable[Key]) -> dict[Key, int]:
        """Hashes of single keys, those that are there."""
        found: dict[Key, int] = {}
        for part in _parts(wanted):
            found |= self._hashes(self._layout.rows_of(part))
        asked = set(wanted)
        # Equal in the server's collation is not yet equal.
        return {k: v for k, v in found.items() if k in asked}

    def buckets(self, count: int) -> dict[int, Digest]:
        """Count and sum of each bucket that has rows: of the rows whose hash is it modulo."""
        if self._layout.loose:
            found: dict[int, Digest] = {}
            for value, n in self._all().items():
                was = found.get(value % count, Digest())
                found[value % count] = Digest(was.count + n, was.sum + value * n)
            return found
        return {
            int(b or 0): self._checked(int(n), int(s))
            for b, n, s in self._session.rows(self._layout.buckets(count))
        }

    def hashes_in(self, buckets: Collection[int], count: int) -> dict[int, int]:
        """How many rows have each hash, in some of ``count`` buckets."""
        if self._layout.loose:
            return {v: n for v, n in self._all().items() if v % count in buckets}
        wanted = ", ".join(map(str, buckets))
        return self._counted(f"v % {count} IN ({wanted})")

    def counts_of(self, hashes: Collection[int]) -> dict[int, int]:
        """How many rows have each of some hashes, of those that are there."""
        if self._layout.loose:
            return {v: n for v, n in self._all().items() if v in hashes}
        return self._counted(f"v IN ({', '.join(map(str, hashes))})") if hashes else {}

    def details_of(self, wanted: Sequence[Key]) -> dict[Key, Detail]:
        """Rows of single keys."""
        sql = (self._layout.details_of(part) for part in _parts(wanted))
        return {d.key: d for text in sql for d in self._details(text)}

    def details_where(self, hashes: Collection[int]) -> list[Detail]:
        """Rows of some hashes, each as often as it is there."""
        if not hashes:
            return []
        if not self._layout.loose:
            return list(self._details(self._layout.details_where(hashes)))
        # What the server can hash is only part of the row: look at all of them.
        return [d for d in self._details(self._layout.detailed()) if d.hash in hashes]

    # --- shaping -------------------------------------------------------------------------------

    def _hashes(self, sql: str) -> dict[Key, int]:
        at = len(self._layout.key)
        return {
            _cells(row[:at]): self._hash(row[at], row[at + 1 :]) for row in self._session.rows(sql)
        }

    def _all(self) -> Counter[int]:
        return Counter(self._hash(r[0], r[1:]) for r in self._session.rows(self._layout.every()))

    def _counted(self, condition: str) -> dict[int, int]:
        return {int(v): int(n) for v, n in self._session.rows(self._layout.hashes(condition))}

    def _details(self, sql: str) -> Iterator[Detail]:
        keys, columns = len(self._layout.key), self._layout.columns
        values = keys + 1 + 2 * len(columns)
        for row in self._session.rows(sql):
            texts = [str(_plain(v)) for v in row[keys + 1 : values : 2]]
            shown = [short(v) for v in row[keys + 2 : values : 2]]
            documents = iter(row[values:])
            for i, column in enumerate(columns):
                if column.loose:
                    texts[i] = str(canonical(_text(next(documents))))
            value = self._hash(row[keys], row[values:])
            yield Detail(value, _cells(row[:keys]), tuple(texts), tuple(shown))

    def _hash(self, value: object, loose: Row) -> int:
        if value is None:
            raise self._too_large()
        if not loose:
            return int(str(value))
        whole = repr((str(value), *(canonical(_text(v)) for v in loose)))
        return int.from_bytes(hashlib.sha256(whole.encode()).digest()[:8]) >> 4

    def _checked(self, count: int, total: int) -> Digest:
        if total >= UNHASHED:
            raise self._too_large()
        return Digest(count, total)

    def _too_large(self) -> RowNotHashed:
        return RowNotHashed(
            "a row is larger than the server's max_allowed_packet lets us compare",
            object=f"{self._layout.schema}.{self._layout.name}",
            hint="raise max_allowed_packet of both servers, or leave the table out",
        )


def _parts(wanted: Iterable[Key]) -> Iterator[list[Key]]:
    rest = iter(wanted)
    while part := list(islice(rest, _AT_ONCE)):
        yield part


def _cells(row: Row) -> Key:
    return tuple(str(_plain(v)) for v in row)


def _plain(value: object) -> object:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _text(value: object) -> str | None:
    if value is None:
        return None
    return value.decode() if isinstance(value, bytes) else str(value)
