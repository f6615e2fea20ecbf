"""What a consumer makes of a topic that begins with rows: the history of each key must be whole.

The first message of a key is an INSERT, whether of a row that was there or of a new one; nothing
comes of a key behind its DELETE but another INSERT. Rows of a table without a key are counted.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_ROWS = ("INSERT", "UPDATE", "DELETE")
Row = dict[str, Any]


@dataclass
class Histories:
    """Messages of canal-json, in the order of their partition.

    ``live``: by table the newest row of each key, by the key's values as JSON; ``counted``: by
    table without a key how many rows there are of each content. ``broken``: what must not be.
    """

    live: defaultdict[str, dict[str, Row]] = field(default_factory=lambda: defaultdict(dict))
    counted: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    broken: list[str] = field(default_factory=list)
    messages: int = 0

    def take(self, body: Mapping[str, Any]) -> None:
        """Take in the next message."""
        if body["isDdl"] or body["type"] not in _ROWS:
            return
        self.messages += 1
        for at, row in enumerate(body["data"]):
            old = body["old"][at] if body["type"] == "UPDATE" else {}
            if body["pkNames"]:
                self._keyed(body["table"], body["pkNames"], body["type"], row, row | old)
            else:
                self._loose(body["table"], body["type"], row, row | old)

    def _keyed(self, table: str, columns: list[str], kind: str, row: Row, before: Row) -> None:
        live = self.live[table]
        name, was = (json.dumps([one[c] for c in columns]) for one in (row, before))
        if kind != "INSERT" and live.pop(was, None) is None:
            self.broken.append(f"{table} {was}: {kind} of a row that is not there")
        if kind == "DELETE":
            return
        if name in live:
            self.broken.append(f"{table} {name}: {kind} of a key that is there already")
        live[name] = row

    def _loose(self, table: str, kind: str, row: Row, before: Row) -> None:
        rows = self.counted[table]
        if kind != "INSERT":
            was = json.dumps(before)
            rows[was] -= 1
            if rows[was] < 0:
                self.broken.append(f"{table} {was}: {kind} of a row that is not there")
        if kind != "DELETE":
            rows[json.dumps(row)] += 1

    def rows(self, table: str) -> list[Row]:
        """The rows that a table is left with."""
        if table in self.counted:
            found = (self.counted[table] + Counter()).elements()
            return [json.loads(text) for text in found]
        return list(self.live[table].values())
