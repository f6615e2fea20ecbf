"""Messages of canal-json folded into the tables that they describe.

Each partition is folded by itself, in its own order, schema changes included: every partition of a
topic shows them at the same place between rows. So partitions may be read in any order. The last
state of every key is kept, also that it was deleted: in a store, whose memory has a bound.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from cdc.base.errors import DefiniteError
from cdc.schema.session import Session
from cdc.verify import fold_ddl
from cdc.verify.fold_store import Cell, FoldStore, Key, TextRow
from cdc.verify.folded_part import FoldedPart, Name

_KINDS = frozenset({"INSERT", "UPDATE", "DELETE"})


class MessageUnreadable(DefiniteError):
    """A message of the topic is not one of canal-json's."""

    code = "TG:ErrVerifyMessageUnreadable"


class FoldedState(NamedTuple):
    """What the messages say of a key.

    ``row`` is None if it was deleted. ``unsaid``: columns whose values a schema change has made,
    and no message since. ``may_be_gone``: a schema change may have taken it, as with its partition.
    """

    row: TextRow | None
    unsaid: frozenset[str]
    may_be_gone: bool


def _newest(cells: Sequence[Cell], lost: int) -> FoldedState:
    """Behind a schema change a key may be in another partition: the last such state counts."""
    newest = max(cell.since for cell in cells)
    last = [cell for cell in cells if cell.since == newest]
    cell = next((cell for cell in last if cell.row is not None), last[0])
    return FoldedState(cell.row, cell.unsaid, cell.since < lost)


@dataclass
class FoldedTable:
    """A table as the messages so far leave it, under the name that it has in the end.

    ``key``: its columns, ``()`` for a table whose rows are counted as wholes. ``spread``: a key may
    move from one partition to another, so that each partition has a state of its own.
    """

    key: tuple[str, ...]
    spread: bool = False
    _name: Name = ("", "")
    _fold: Fold | None = None
    _found: list[FoldedPart] = field(default_factory=list)
    _found_at: int = -1

    def states(self, keys: Sequence[Key]) -> dict[Key, FoldedState]:
        """The states of those of some keys that a message was about."""
        parts = self._parts()
        cells: dict[Key, list[Cell]] = {}
        for part in parts:
            for key, cell in part.states(keys).items():
                cells.setdefault(key, []).append(cell)
        lost = max((part.lost for part in parts), default=0)
        return {key: _newest(found, lost) for key, found in cells.items()}

    def pages(self) -> Iterator[dict[Key, FoldedState]]:
        """All keys that a message was about with their states, many at a time, each once."""
        parts = self._parts()
        for at, part in enumerate(parts):
            for keys in part.pages():
                before = {k for earlier in parts[:at] for k in earlier.states(keys)}
                yield self.states([k for k in keys if k not in before])

    def counts(self) -> Iterator[tuple[TextRow, int]]:
        """Of a table without a key: rows, and how many of each there are more, part by part."""
        return (counted for part in self._parts() for counted in part.counts())

    @property
    def complete(self) -> bool:
        """Whether its messages began when it was empty."""
        parts = self._parts()
        return bool(parts) and all(part.complete for part in parts)

    @property
    def unsure(self) -> str:
        """Why its rows cannot be told from the messages; empty if they can."""
        return next((part.unsure for part in self._parts() if part.unsure), "")

    def _parts(self) -> list[FoldedPart]:
        fold = self._fold
        if fold is not None and self._found_at != fold.messages:
            self._found_at = fold.messages
            self._found = [t[self._name] for t in fold.places.values() if self._name in t]
            for part in self._found:
                part.keyed_by(self.key)
        return self._found


class Fold:
    """The tables of a changefeed by schema and name; the others are folded for what they become.

    ``session`` is how the upstream reads its statements, as far as messages do not say it; rows
    are kept in ``store``.
    """

    def __init__(
        self,
        tables: Mapping[Name, FoldedTable],
        store: FoldStore,
        session: Session | None = None,
    ) -> None:
        self.store = store
        self.tables = tables
        self.messages = 0
        self.earlier_names: set[Name] = set()
        self._session = session or Session()
        self.places: dict[Hashable, dict[Name, FoldedPart]] = {}
        self._changes: Counter[Hashable] = Counter()
        for name, table in tables.items():
            table._name, table._fold, table._found_at = name, self, -1

    def add(self, place: Hashable, message: bytes, where: str) -> None:
        """Take the next message of a partition, ``place``. Raises MessageUnreadable."""
        try:
            said = json.loads(message)
            kind = said["type"]
            self.messages += 1
            tables = self.places.setdefault(place, {})
            if said.get("isDdl"):
                self._ddl(place, tables, said)
            elif kind in _KINDS:
                name = said.get("database"), said.get("table")
                part = tables.get(name)
                if part is None:
                    part = tables[name] = FoldedPart(self.store)
                self._rows(part, kind, said, name)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MessageUnreadable(
                f"it is not canal-json: {type(error).__name__} {error}"[:200],
                object=where,
                hint="see what else writes into the topic",
            ) from None

    def _rows(self, part: FoldedPart, kind: str, said: Mapping[str, Any], name: Name) -> None:
        olds = said.get("old") or [{}] * len(said["data"])
        for row, old in zip(said["data"], olds, strict=True):
            key = tuple(said.get("pkNames") or ())
            if not key and name in self.tables:
                # A unique key does for a key, which messages do not name.
                wanted = self.tables[name].key
                key = wanted if all(column in row for column in wanted) else ()
            part.keyed_by(key)
            part.add(kind, row, old)

    def _ddl(
        self, place: Hashable, tables: dict[Name, FoldedPart], said: Mapping[str, Any]
    ) -> None:
        context = said.get("_tidegate") or {}
        modes = str(context.get("session", {}).get("sql_mode", "")).split(",")
        session = replace(
            self._session,
            default_schema=context.get("defaultDatabase", said["database"]),
            ansi_quotes="ANSI_QUOTES" in modes,
            no_backslash_escapes="NO_BACKSLASH_ESCAPES" in modes,
        )
        self._changes[place] += 1
        # Without the extension only milliseconds are known; the order, the same in every partition
        # of a topic, does the rest.
        since = (said.get("_tidb") or {}).get("commitTs")
        since = int(since or (int(said["es"]) << 18) + self._changes[place])
        self.earlier_names |= fold_ddl.apply(tables, said["sql"], session, since, self.store)
