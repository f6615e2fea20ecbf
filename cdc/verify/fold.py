"""Pure: messages of canal-json folded into the tables that they describe.

The last state of every key is kept, also that it was deleted, so the memory grows with the keys.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cdc.base.errors import DefiniteError

TextRow = dict[str, str | None]
Key = tuple[str, ...]
Full = tuple[tuple[str, str | None], ...]
_KINDS = frozenset({"INSERT", "UPDATE", "DELETE"})


class MessageUnreadable(DefiniteError):
    """A message of the topic is not one of canal-json's."""

    code = "TG:ErrVerifyMessageUnreadable"


@dataclass
class FoldedTable:
    """A table as the messages so far leave it.

    ``key``: its columns, ``()`` for a table whose rows are counted as wholes. ``spread``: a key may
    move from one partition to another, so that each partition has a state of its own.
    """

    key: tuple[str, ...]
    spread: bool = False
    messages: int = 0
    counts: Counter[Full] = field(default_factory=Counter)
    partitions: set[int] = field(default_factory=set)
    _rows: dict[tuple[int, Key], TextRow | None] = field(default_factory=dict)

    def add(self, partition: int, kind: str, row: TextRow, old: TextRow) -> None:
        """Take one change; ``old`` may have the changed columns only."""
        self.messages += 1
        if not self.key:
            if kind != "INSERT":
                self.counts[_full({**row, **old})] -= 1
            if kind != "DELETE":
                self.counts[_full(row)] += 1
            return
        place = partition if self.spread else 0
        self.partitions.add(place)
        key = self._key(row)
        if kind == "UPDATE" and (was := self._key({**row, **old})) != key:
            self._rows[place, was] = None
        self._rows[place, key] = row if kind != "DELETE" else None

    def known(self, key: Key) -> bool:
        """Whether a message was about this key."""
        return any((p, key) in self._rows for p in self.partitions)

    def row(self, key: Key) -> TextRow | None:
        """The row of a key; None if it was deleted or never there."""
        found = (self._rows.get((p, key)) for p in self.partitions)
        return next((row for row in found if row is not None), None)

    def present(self) -> Iterator[Key]:
        """Keys that have a row."""
        return (key for (_, key), row in self._rows.items() if row is not None)

    def _key(self, row: TextRow) -> Key:
        return tuple(str(row[name]) for name in self.key)


class Fold:
    """The tables of a changefeed by schema and name; messages of others are passed over."""

    def __init__(self, tables: Mapping[tuple[str, str], FoldedTable]) -> None:
        self.tables = tables
        self.messages = 0

    def add(self, partition: int, message: bytes, place: str) -> None:
        """Take one message. Raises MessageUnreadable."""
        try:
            said = json.loads(message)
            kind = said["type"]
            self.messages += 1
            table = self.tables.get((said.get("database"), said.get("table")))
            if kind not in _KINDS or table is None or said.get("isDdl"):
                return
            olds = said.get("old") or [{}] * len(said["data"])
            for row, old in zip(said["data"], olds, strict=True):
                table.add(partition, kind, row, old)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MessageUnreadable(
                f"it is not canal-json: {type(error).__name__} {error}"[:200],
                object=place,
                hint="see what else writes into the topic",
            ) from None


def _full(row: TextRow) -> Full:
    return tuple(sorted(row.items()))
