"""Where a stream of binlog files ends, and the pieces of which its files are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc.base.ts import Ts
from cdc.binlog.events import Dialect
from cdc.binlog.gtid_list import GtidList
from cdc.binlog.gtid_set import GtidSet, GtidSource, MariadbGtid
from cdc.rows.transactions import GtidName


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a file from ``offset`` on, which lie in a part of the ledger until they are there.

    One at offset 0 is the beginning of its file.
    """

    part: str
    file: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the stream goes on.

    ``file`` is the number of the last file (0: there is none yet), ``end`` its length, ``version``
    of which server it is, ``count`` how many transactions it has. ``gtids``: by source, in the
    order of their last use, the first and the last number that the stream has. ``last`` names the
    last transaction, ``ts`` is the highest of all.
    """

    file: int = 0
    end: int = 0
    version: str = ""
    count: int = 0
    gtids: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    last: GtidName | None = None
    ts: Ts = 0

    @property
    def place(self) -> tuple[int, int]:
        """By which tails compare: file and length."""
        return self.file, self.end

    def to_json(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {
            "file": self.file,
            "end": self.end,
            "version": self.version,
            "count": self.count,
            "gtids": [[source, *numbers] for source, numbers in self.gtids.items()],
            "last": self.last,
            "ts": self.ts,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Tail:
        """Reads it back."""
        last = value["last"]
        return cls(
            int(value["file"]),
            int(value["end"]),
            str(value["version"]),
            int(value["count"]),
            {source: (int(first), int(end)) for source, first, end in value["gtids"]},
            None if last is None else GtidName(str(last[0]), int(last[1])),
            int(value["ts"]),
        )

    def behind(self, gtid: GtidName) -> dict[str, tuple[int, int]]:
        """``gtids`` with one more, which is then the last."""
        source, number = gtid
        first, last = self.gtids.get(source, (number, number))
        others = {s: numbers for s, numbers in self.gtids.items() if s != source}
        return others | {source: (min(first, number), max(last, number))}

    def previous(self, dialect: Dialect) -> GtidSet | GtidList:
        """What a new file says of those before it.

        What the filter has left out between two transactions of a source counts as passed.
        """
        if dialect is Dialect.MARIADB:
            listed = (MariadbGtid.parse(f"{s}-{last}") for s, (_, last) in self.gtids.items())
            return GtidList(tuple(listed))
        return GtidSet(
            {GtidSource(s): ((first, last + 1),) for s, (first, last) in sorted(self.gtids.items())}
        )
