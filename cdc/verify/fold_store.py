"""Where folded rows are kept: in memory up to a bound, beyond it in a file that nobody else sees.

The file is SQLite's, without a journal: it is worth nothing once its verification has ended, and is
taken out of its folder when it is opened, so that a killed capture leaves none behind.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cdc.base.errors import TransientError

TextRow = dict[str, str | None]
Key = tuple[str, ...]
Values = tuple[str | None, ...]

NOTHING: frozenset[str] = frozenset()

HELD_BYTES = 32 << 20
"""Text of states that are not yet written; dictionaries around it take about as much again."""

_PAGES_KB = 32 << 10
# Of keys, so that rows of any usual size are a few megabytes.
_AT_ONCE = 200
_AROUND_BYTES = 300
_TABLES = (
    "CREATE TABLE cells (part INTEGER, key TEXT, cell TEXT, PRIMARY KEY (part, key))",
    "CREATE TABLE counts (part INTEGER, row TEXT, n INTEGER, PRIMARY KEY (part, row))",
    "CREATE TABLE totals (key TEXT PRIMARY KEY, ours INTEGER, theirs INTEGER)",
    "CREATE TABLE suspects (key TEXT PRIMARY KEY, ours INTEGER, theirs INTEGER)",
    "CREATE TABLE seen (key TEXT PRIMARY KEY) WITHOUT ROWID",
)


class FoldNotKept(TransientError):
    """The file of folded rows cannot be written or read."""

    code = "TG:ErrVerifyFoldNotKept"


class Cell(NamedTuple):
    """The last state of a key: its row, or None once deleted.

    ``since``: the schema change of the table that was the last before the message. ``unsaid``: the
    columns that later changes gave values of their own. ``changes``: how many changes of columns
    the row and ``unsaid`` have in them.
    """

    since: int
    row: TextRow | None
    unsaid: frozenset[str] = NOTHING
    changes: int = 0


class FoldStore:
    """States of keys, and numbers of equal rows, by the number of a part. One thread uses it.

    ``folder`` is where the file is made, None for the system's. Methods raise FoldNotKept.
    """

    def __init__(self, folder: Path | None = None, held_bytes: int = HELD_BYTES) -> None:
        self._held_bytes = held_bytes
        self._cells: dict[tuple[int, str], str] = {}
        self._counts: dict[tuple[int, str], int] = {}
        self._bytes = 0
        self._numbers = 0
        with _mapped():
            made, name = tempfile.mkstemp(prefix="verify-", dir=folder)
            os.close(made)
            try:
                # The thread that opens it is not the one that compares.
                self._db = sqlite3.connect(name, isolation_level=None, check_same_thread=False)
                for pragma in ("journal_mode = OFF", "synchronous = OFF"):
                    self._db.execute(f"PRAGMA {pragma}")
                self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._db.execute(f"PRAGMA cache_size = -{_PAGES_KB}")
                for table in _TABLES:
                    self._db.execute(table)
            finally:
                os.unlink(name)

    def close(self) -> None:
        """Forget all."""
        self._db.close()

    def number(self) -> int:
        """The number of a new part."""
        self._numbers += 1
        return self._numbers

    # --- states of keys --------------------------------------------------------------------------

    def put(self, part: int, key: Key, cell: Cell) -> None:
        """The state of a key from now on."""
        said = (cell.since, cell.row, sorted(cell.unsaid), cell.changes)
        text = json.dumps(said)
        self._cells[part, json.dumps(key)] = text
        self._hold(len(text))

    def cells(self, part: int, keys: Sequence[Key]) -> dict[Key, Cell]:
        """The states of those of some keys that have one."""
        self._write()
        found = self._of("SELECT key, cell FROM cells", keys, part)
        return {tuple(json.loads(key)): _cell(text) for key, text in found}

    def pages(self, part: int) -> Iterator[list[tuple[Key, Cell]]]:
        """All keys of a part with their states, many at a time, in the order of their texts."""
        for page in self._pages("cells", "key", "cell", part):
            yield [(tuple(json.loads(key)), _cell(text)) for key, text in page]

    def keys(self, part: int) -> Iterator[list[Key]]:
        """The same without the states."""
        for page in self._pages("cells", "key", "part", part):
            yield [tuple(json.loads(key)) for key, _ in page]

    # --- numbers of equal rows -------------------------------------------------------------------

    def count(self, part: int, row: TextRow, n: int) -> None:
        """There are ``n`` more of a row."""
        text = json.dumps(sorted(row.items()))
        held = (part, text)
        if held not in self._counts:
            self._hold(len(text))
        self._counts[held] = self._counts.get(held, 0) + n

    def counts(self, part: int) -> Iterator[tuple[TextRow, int]]:
        """Rows of a part, and how many there are of each, where that is not none."""
        for page in self._pages("counts", "row", "n", part):
            yield from ((dict(json.loads(text)), n) for text, n in page if n)

    def forget(self, part: int) -> None:
        """All of a part."""
        self._write()
        for table in ("cells", "counts"):
            self._ask(f"DELETE FROM {table} WHERE part = ?", part)

    # --- one comparison at a time ----------------------------------------------------------------

    def begin(self) -> None:
        """Forget which keys were seen, and which differed."""
        self._empty("seen", "suspects")

    def see(self, keys: Sequence[Key]) -> set[Key]:
        """Note keys that the upstream has; those that had been noted before."""
        known = self.seen(keys)
        self._many("INSERT OR IGNORE INTO seen VALUES (?)", [(json.dumps(key),) for key in keys])
        return known

    def seen(self, keys: Sequence[Key]) -> set[Key]:
        """Those of some keys that had been noted."""
        found = self._of("SELECT key FROM seen", keys)
        return {tuple(json.loads(key)) for (key,) in found}

    def differ(self, found: Iterable[tuple[Key, int | None, int | None]]) -> None:
        """Note what both sides have of keys that differ."""
        rows = [(json.dumps(key), ours, theirs) for key, ours, theirs in found]
        self._many("INSERT OR REPLACE INTO suspects VALUES (?, ?, ?)", rows)

    def different(self) -> Iterator[dict[Key, tuple[int | None, int | None]]]:
        """What differs, many at a time."""
        last = ""
        while True:
            sql = "SELECT * FROM suspects WHERE key > ? ORDER BY key LIMIT ?"
            page = self._ask(sql, last, _AT_ONCE)
            if not page:
                return
            last = page[-1][0]
            yield {tuple(json.loads(key)): (ours, theirs) for key, ours, theirs in page}

    def count_anew(self) -> None:
        """Forget how many rows there are in total."""
        self._empty("totals")

    def total(self, rows: Iterable[tuple[Values, int, int]]) -> None:
        """Rows of which so many more are upstream, and in the topic; each is named by its JSON."""
        named = [(json.dumps([json.dumps(r)]), ours, theirs) for r, ours, theirs in rows]
        self._many(
            "INSERT INTO totals VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
            " SET ours = ours + excluded.ours, theirs = theirs + excluded.theirs",
            named,
        )

    def totals(self) -> tuple[int, int]:
        """How many rows there are, upstream and in the topic; what differs is noted."""
        self._ask("INSERT INTO suspects SELECT * FROM totals WHERE ours <> theirs")
        found = self._ask("SELECT COALESCE(SUM(ours), 0), COALESCE(SUM(theirs), 0) FROM totals")
        return found[0][0], found[0][1]

    def totals_of(self, keys: Sequence[Key]) -> dict[Key, tuple[int, int]]:
        """How many there are of some rows by their names, of those that are anywhere."""
        found = self._of("SELECT * FROM totals", keys)
        return {tuple(json.loads(key)): (ours, theirs) for key, ours, theirs in found}

    # --- shaping ---------------------------------------------------------------------------------

    def _pages(self, table: str, by: str, of: str, part: int) -> Iterator[list[tuple[str, Any]]]:
        last = ""
        sql = (
            f"SELECT {by}, {of} FROM {table} WHERE part = ? AND {by} > ?"
            f" ORDER BY {by} LIMIT {_AT_ONCE}"
        )
        while True:
            self._write()
            page = self._ask(sql, part, last)
            if not page:
                return
            last = page[-1][0]
            yield page

    def _hold(self, size: int) -> None:
        self._bytes += size + _AROUND_BYTES
        if self._bytes > self._held_bytes:
            self._write()

    def _write(self) -> None:
        if self._cells:
            # In the order of their keys, as the index is.
            cells = ((*held, text) for held, text in sorted(self._cells.items()))
            self._many(
                "INSERT INTO cells VALUES (?, ?, ?)"
                " ON CONFLICT (part, key) DO UPDATE SET cell = excluded.cell",
                cells,
            )
        if self._counts:
            counts = ((*held, n) for held, n in sorted(self._counts.items()) if n)
            self._many(
                "INSERT INTO counts VALUES (?, ?, ?)"
                " ON CONFLICT (part, row) DO UPDATE SET n = n + excluded.n",
                counts,
            )
        self._cells, self._counts, self._bytes = {}, {}, 0

    def _empty(self, *tables: str) -> None:
        for table in tables:
            self._ask(f"DELETE FROM {table}")

    def _ask(self, sql: str, *values: object) -> list[Any]:
        with _mapped():
            return self._db.execute(sql, values).fetchall()

    def _of(self, sql: str, keys: Iterable[Key], part: int | None = None) -> list[Any]:
        where = "key IN (SELECT value FROM json_each(?))"
        wanted = json.dumps([json.dumps(key) for key in keys])
        if part is None:
            return self._ask(f"{sql} WHERE {where}", wanted)
        return self._ask(f"{sql} WHERE part = ? AND {where}", part, wanted)

    def _many(self, sql: str, rows: Iterable[tuple[object, ...]]) -> None:
        with _mapped():
            self._db.execute("BEGIN")
            self._db.executemany(sql, rows)
            self._db.execute("COMMIT")


def _cell(text: str) -> Cell:
    since, row, unsaid, changes = json.loads(text)
    return Cell(since, row, frozenset(unsaid), changes)


@contextmanager
def _mapped() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise FoldNotKept(
            f"{type(error).__name__} {error}"[:200],
            object="the file of the topic's rows",
            hint="see whether the data directory's disk has room",
        ) from None
