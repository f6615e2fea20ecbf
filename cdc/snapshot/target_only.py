"""Keys of rows that a target has and its upstream had not, as images of rows that go.

They are written in the form of rows that were read, and ``cdc.snapshot.settle`` makes deletes of
them, before the rows: one that the upstream has by then comes behind its delete. An image has the
values of the key, and NULL for all others, which nobody else knows of a row that only the target
has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final
from uuid import UUID

import numpy as np

from cdc.binlog.cursor import lenenc_int
from cdc.schema.charsets import encode
from cdc.schema.table import Column, Table
from cdc.snapshot.errors import SnapshotRowUnreadable
from cdc.snapshot.images import RowImages
from cdc.snapshot.rows_reader import RowBlock
from cdc.snapshot.staged import StagedFile

_NULL: Final = b"\xfb"
_HEX: Final = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
    | {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
)


# They are read as bytes (``cdc.snapshot.select_list``).
_PACKED: Final[Mapping[str, Callable[[str], bytes]]] = {
    "uuid": lambda text: UUID(text).bytes,
    "inet4": lambda text: IPv4Address(text).packed,
    "inet6": lambda text: IPv6Address(text).packed,
}


@dataclass(frozen=True, slots=True)
class TargetOnly:
    """Keys of one table. ``columns``: names of the key's columns. ``keys``: a text for each.

    Texts are as a server prints the value; of text the UTF-8, and of bytes all, in hexadecimal.
    """

    columns: Sequence[str]
    keys: Sequence[Sequence[str]]

    def fits(self, table: Table) -> bool:
        """Whether these columns are what tells the rows of ``table`` apart."""
        ours = {table.columns[i].name.lower() for i in table.handle_key}
        return bool(ours) and ours == {name.lower() for name in self.columns}

    def write(self, table: Table, server_kind: str, number: int, path: Path) -> StagedFile:
        """Write their images into ``path``; ``number`` is the table's in its events.

        Raises SnapshotRowUnreadable where the table's key is another one, or a text is no value.
        """
        if not self.fits(table):
            raise SnapshotRowUnreadable(
                "its rows are told apart by another key than when they were compared",
                object=table.full_name,
                hint="compare again: cdc cli changefeed verify",
            )
        images = RowImages(table, server_kind, table_number=number)
        with path.open("wb") as file:
            events = images.write(self._block(table), file)
        return StagedFile(path, len(self.keys), events)

    def _block(self, table: Table) -> RowBlock:
        """As the text protocol would have sent these rows."""
        places = {name.lower(): i for i, name in enumerate(self.columns)}
        data = bytearray()
        for key in self.keys:
            row = b"".join(self._values(table, places, key))
            data += len(row).to_bytes(4, "little") + row
        return RowBlock(np.frombuffer(bytes(data), np.uint8), len(self.keys))

    @staticmethod
    def _values(table: Table, places: dict[str, int], key: Sequence[str]) -> Iterator[bytes]:
        for column in table.columns:
            place = places.get(column.name.lower())
            if place is None:
                yield _NULL
            else:
                value = _value(column, key[place])
                yield lenenc_int(len(value)) + value


def _value(column: Column, text: str) -> bytes:
    if column.data_type == "bit":
        width = int((re.search(r"\d+", column.column_type) or [1])[0])
        return int(text).to_bytes((width + 7) // 8)
    if (packed := _PACKED.get(column.data_type)) is not None:
        return packed(text)
    if column.data_type not in _HEX:
        return text.encode()
    raw = bytes.fromhex(text)
    return encode(raw.decode(), column.charset) if column.charset else raw
