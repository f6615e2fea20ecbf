"""Several streams in one folder: which table's rows go to which, kept so that it never changes.

A stream is a folder of binlog files with a ledger of its own, and a replica follows one. What it
has of a table must come to it as long as the table lives, so the assignment is a function of names
or key values that is written down once, and a table that is renamed stays where it was: its place
is then written beside (``placed``).
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from cdc.base.ids import FeedId
from cdc.base.nodes import plain
from cdc.base.ts import Ts
from cdc.changelog import lines
from cdc.changelog.files import replace
from cdc.schema.statement import DdlStatement, Verb
from cdc.schema.table import Table
from sink.binlog.errors import BinlogRowsMove, BinlogStreamsFixed
from sink.contract import Destination, Layout
from sink.dispatch.rules import Route
from sink.dispatch.settings import PartitionMode
from sink.dispatch.target import TargetRouter
from sink.file.folder import admitted
from sink.file.ledger import ledgers, read
from sink.file.names import LEDGERS
from sink.schema_change import SchemaChange, TableName

NAME = "binlog"
"""Name of the destinations: ``(NAME, stream)``."""

_WHOLE = ("", "")
# Types whose values have one text whatever their length.
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_KINDS = dict.fromkeys(_INTEGERS, ("integer",))


class Split(StrEnum):
    """By what rows are assigned to streams."""

    DATABASE = "database"
    TABLE = "table"
    KEY = "key"


def destination(number: int) -> Destination:
    """The destination that a stream is."""
    return NAME, number


def folder_of(root: Path, number: int, streams: int) -> Path:
    """The folder of a stream's files; of a single one it is the sink's own."""
    return root if streams == 1 else root / f"stream-{number:02d}"


@dataclass(frozen=True, slots=True)
class StreamAssignment:
    """How many streams there are, by what rows are assigned, and where renamed tables lie.

    ``placed``: by lower-case ``schema.table`` the stream, where that is not the one of the name.
    ``renamed_ts`` is the last schema change that ``placed`` knows of.
    """

    streams: int = 1
    split: Split = Split.TABLE
    placed: Mapping[str, int] = field(default_factory=dict)
    renamed_ts: Ts = 0

    def stream(self, name: TableName) -> int:
        """The stream of a table, of all its rows that are not assigned by their key."""
        schema, table = plain(name[0]).lower(), name[1].lower()
        found = self.placed.get(f"{schema}.{table}")
        if found is not None:
            return found
        hashed = schema if self.split is Split.DATABASE else f"{schema}.{table}"
        return zlib.crc32(hashed.encode()) % self.streams

    def renamed(self, pairs: Iterable[tuple[TableName, TableName]], ts: Ts) -> StreamAssignment:
        """It, once tables have new names (old, new); all of them stay in their streams."""
        if ts <= self.renamed_ts:
            return self
        now = StreamAssignment(self.streams, self.split, dict(self.placed), ts)
        for old, new in pairs:
            stream = now.stream(old)
            without = {k: n for k, n in now.placed.items() if k not in (_key(old), _key(new))}
            now = StreamAssignment(self.streams, self.split, without, ts)
            if now.stream(new) != stream:
                now = StreamAssignment(self.streams, self.split, without | {_key(new): stream}, ts)
        return now

    @property
    def layout(self) -> Layout:
        """As workers are told."""
        return Layout({NAME: self.streams}, self.placed)


class StreamRoutes:
    """Which stream a table's rows go to (``sink.contract.Routes``)."""

    def __init__(self, split: Split, layout: Layout, names: TargetRouter) -> None:
        self._assigned = StreamAssignment(layout.counts[NAME], split, layout.placed)
        self._names = names

    def route(self, table: Table) -> Route:
        """Its stream, or that of each row's key; a table without a key is in one."""
        assigned = self._assigned
        if assigned.split is Split.KEY and assigned.streams > 1 and table.handle_key:
            columns = tuple(table.columns[i].name for i in table.handle_key)
            # Without a name: values alone decide, so that a table may be renamed.
            return Route(NAME, PartitionMode.INDEX_VALUE, columns, assigned.streams, 0, 0, _WHOLE)
        name = table.schema, table.name
        if self._names.merging:
            name = self._names.target(*name)
        return Route(NAME, PartitionMode.TABLE, (), assigned.streams, assigned.stream(name))


class StreamsFolder:
    """What a sink's folder says of its streams: one line, ``.tidegate/streams``."""

    def __init__(self, root: Path, streams: int, split: Split) -> None:
        self.root = root
        self._wanted = StreamAssignment(streams, split)
        self._path = root / LEDGERS / "streams"

    @property
    def folders(self) -> list[Path]:
        """Those of the streams, in their order."""
        count = self._wanted.streams
        return [folder_of(self.root, n, count) for n in range(count)]

    def assignment(self) -> StreamAssignment:
        """How rows are assigned. Raises BinlogStreamsFixed if the folder has it otherwise."""
        found = _written(self._path)
        if found is None:
            # A folder of one stream says nothing, as it did before there were several.
            found = StreamAssignment() if any(ledgers(self.root)) else self._wanted
        alike = found.split is self._wanted.split or found.streams == 1
        if found.streams != self._wanted.streams or not alike:
            raise BinlogStreamsFixed(
                f"its files are {found.streams} streams, by {found.split}",
                object=str(self.root),
                hint=f"keep streams={found.streams}&split={found.split}, or give another folder",
            )
        return found

    def claim(self) -> StreamAssignment:
        """Write down how rows are assigned, unless it is."""
        assigned = self.assignment()
        if assigned.streams > 1 and _written(self._path) is None:
            self.keep(assigned)
        return assigned

    def keep(self, assigned: StreamAssignment) -> None:
        """Write an assignment durably."""
        self._path.parent.mkdir(mode=0o755, exist_ok=True)
        replace(self._path, lines.encode(_to_json(assigned)))

    def admit(self, feed: FeedId) -> Collection[FeedId]:
        """Whose ledgers there are, all of the changefeed's name; see ``sink.file.folder``."""
        folders = dict.fromkeys([self.root, *self.folders])
        found = {known for folder in folders for known in admitted(folder, feed)}
        self.assignment()
        return sorted(found)

    def known(self) -> Collection[FeedId]:
        """Whose ledgers there are."""
        return sorted({known for folder in self.folders for known in ledgers(folder)})

    def forget(self) -> None:
        """Let the next changefeed assign rows as it likes."""
        self._path.unlink(missing_ok=True)


def check_rows_stay(
    change: SchemaChange, statement: DdlStatement, assigned: StreamAssignment
) -> None:
    """Raises BinlogRowsMove if rows that are there belong to another stream behind the change."""
    if assigned.split is Split.KEY:
        moved: dict[TableName, TableName] = {}
        for old, new in statement.renames:
            moved[new] = moved.pop(old, old)
        kept = statement.verb is not Verb.CREATE
        for name in change.replicated if kept else ():
            before, after = change.before.table(*moved.get(name, name)), change.after.table(*name)
            if before is not None and after is not None and _hashed(before) != _hashed(after):
                raise _rows_move(change, name, "its key assigns them, and is another one then")
    elif statement.exchanges:
        streams = {assigned.stream(name): name for name in change.tables}
        if len(streams) > 1:
            raise _rows_move(change, next(iter(streams.values())), "the tables are in two streams")


def _rows_move(change: SchemaChange, name: TableName, why: str) -> BinlogRowsMove:
    return BinlogRowsMove(
        f"its rows would go on in another stream: {why}",
        object=".".join(name),
        position=f"ts {change.ts}",
        hint="skip the change if the table has no rows yet; else make the changefeed anew, with"
        " another folder",
    )


def _hashed(table: Table) -> list[tuple[object, ...]]:
    """What decides which text of a key's values is hashed: not how long they may be."""
    found = [table.columns[i] for i in table.handle_key]
    return [(c.name, *_KINDS.get(c.data_type, (c.column_type, c.charset))) for c in found]


def _key(name: TableName) -> str:
    return f"{plain(name[0])}.{name[1]}".lower()


def _to_json(assigned: StreamAssignment) -> dict[str, Any]:
    return {
        "streams": assigned.streams,
        "split": assigned.split,
        "placed": dict(assigned.placed),
        "renamed_ts": assigned.renamed_ts,
    }


def _written(path: Path) -> StreamAssignment | None:
    for line in read(path):
        placed = {str(name): int(n) for name, n in line["placed"].items()}
        split = Split(line["split"])
        return StreamAssignment(int(line["streams"]), split, placed, int(line["renamed_ts"]))
    return None
