"""The dictionaries of a log: tables and GTID sources, in one append-only file."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from cdc.changelog import lines, names
from cdc.changelog.errors import LogCorrupt


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table as one TABLE_MAP describes it; ``map_body`` is that event's body as given."""

    schema: str
    name: str
    map_body: bytes


@dataclass
class Dictionaries:
    """Both directions of each dictionary, and the lines that are not written yet.

    ``xids`` are those that an older version has written here; see :mod:`cdc.changelog.xids`.
    """

    tables: dict[int, TableEntry] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)
    xids: dict[int, str] = field(default_factory=dict)
    unwritten: list[bytes] = field(default_factory=list)
    _table_ids: dict[TableEntry, int] = field(default_factory=dict)
    _source_ids: dict[str, int] = field(default_factory=dict)

    def table_id(self, entry: TableEntry) -> int:
        """Id of the table, a new one if it was not seen before."""
        found = self._table_ids.get(entry)
        if found is not None:
            return found
        number = len(self.tables)
        self._put_table(number, entry)
        map_text = base64.b64encode(entry.map_body).decode()
        self._write({"table": number, "schema": entry.schema, "name": entry.name, "map": map_text})
        return number

    def source_id(self, text: str) -> int:
        """Id of a GTID source."""
        found = self._source_ids.get(text)
        if found is not None:
            return found
        number = len(self.sources)
        self._put_source(number, text)
        self._write({"source": number, "text": text})
        return number

    def load(self, data: bytes, start: int = 0) -> int:
        """Take complete lines; returns the bytes taken. Raises LogCorrupt on a damaged line."""
        end = start
        for line in lines.scan(data, start):
            try:
                self._put(line.parse())
            except (KeyError, ValueError, TypeError):
                raise LogCorrupt(
                    "a line of the dictionary is damaged",
                    object=names.TABLES,
                    position=f"{names.TABLES}:{line.start}",
                    hint="restore the file from a copy, or remove the log and pull anew",
                ) from None
            end = line.end
        return end - start

    def _put(self, value: dict[str, Any]) -> None:
        if "table" in value:
            body = base64.b64decode(value["map"], validate=True)
            self._put_table(value["table"], TableEntry(value["schema"], value["name"], body))
        elif "source" in value:
            self._put_source(value["source"], value["text"])
        else:
            self.xids[value["xid"]] = value["text"]

    def _put_table(self, number: int, entry: TableEntry) -> None:
        if number != len(self.tables):
            raise ValueError(f"table id {number} follows {len(self.tables) - 1}")
        self.tables[number] = entry
        self._table_ids[entry] = number

    def _put_source(self, number: int, text: str) -> None:
        if number != len(self.sources):
            raise ValueError(f"source id {number} follows {len(self.sources) - 1}")
        self.sources[number] = text
        self._source_ids[text] = number

    def _write(self, value: dict[str, Any]) -> None:
        self.unwritten.append(lines.encode(value))
