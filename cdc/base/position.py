"""Positions on the log line: where delivery of a destination stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cdc.base.nodes import node_of_source
from cdc.base.ts import MAX_TS, Ts

ROW_END = (1 << 62) - 1
# Where a ledger keeps names beside tables; a table's name has a dot.
_TRANSACTIONS = "transactions"


class LastOfNode(NamedTuple):
    """The last transaction of one node at or below a ts, by its ``source`` in a log of several.

    ``statement``: only its statement, without the rows that came with it (CREATE TABLE … SELECT).
    """

    source: str
    sequence: int
    statement: bool = False

    @property
    def node(self) -> str:
        """The node's name."""
        return node_of_source(self.source)


Cut = tuple[LastOfNode, ...]
"""The last transaction of every node that has one, by the nodes' names: what lies below a ts."""


def cut_of(lasts: Mapping[str, LastOfNode]) -> Cut:
    """The cut that is made of these, by node."""
    return tuple(lasts[node] for node in sorted(lasts))


class TransactionName(NamedTuple):
    """What the upstream calls a transaction, and the ts that our log has given it.

    ``source`` and ``sequence`` are its GTID: of MariaDB ``domain-server`` and the sequence number,
    of MySQL the uuid (with its tag) and the number. Without a GTID ``source`` is empty, and
    ``sequence`` is the offset at which it begins in the upstream's binlog file number ``file``.
    ``cut``: of shards, whose order is ours alone, where each node stands there; else empty.
    """

    ts: Ts
    source: str
    sequence: int
    file: int
    cut: Cut = ()

    @classmethod
    def of(cls, value: Sequence[Any]) -> TransactionName:
        """From the list that JSON has of it."""
        ts, source, sequence, file, *cut = value
        lasts = (LastOfNode(str(s), int(n), bool(alone)) for s, n, alone in cut[0]) if cut else ()
        return cls(int(ts), str(source), int(sequence), int(file), tuple(lasts))

    def to_list(self) -> list[Any]:
        """Inverse of :meth:`of`; without a cut it is what versions before cuts wrote."""
        cut = [[last.source, last.sequence, last.statement] for last in self.cut]
        return [*self[:4], cut] if cut else list(self[:4])

    @classmethod
    def none_since(cls, ts: Ts) -> TransactionName:
        """The name where there is no transaction above ``ts``, with which the log begins."""
        return cls(ts, "", -1, -1)

    @property
    def is_none(self) -> bool:
        """Whether it says that there is none since its ts."""
        return self.sequence < 0

    def same(self, other: TransactionName) -> bool:
        """Whether both are one transaction of the upstream, whatever ts they have."""
        if self[1:3] != other[1:3]:
            return False
        return bool(self.source) or self.file == other.file

    def __str__(self) -> str:
        if self.is_none:
            return f"nothing since ts {self.ts}"
        if self.source:
            mark = ":" if ":" in self.source or len(self.source) >= 36 else "-"
            return f"{self.source}{mark}{self.sequence}"
        return f"file {self.file}:{self.sequence}"


class Position(NamedTuple):
    """``(ts, row)``: everything before it, and ``row`` rows of the transaction at ``ts``, are done.

    ``row`` counts all rows of the upstream transaction (over all its tables, before any
    filter), so the number does not change with a changefeed's configuration. ``ROW_END`` means
    that the transaction at ``ts`` is done completely. Tuples compare in delivery order.
    """

    ts: Ts
    row: int = ROW_END

    def whole(self) -> bool:
        """Whether it lies on a transaction boundary."""
        return self.row == ROW_END

    def resolved(self) -> Ts:
        """The largest ts of which everything at or below is done."""
        return self.ts if self.whole() else self.ts - 1


class Stand(Position):
    """Where a destination stands, as a position, and which tables stand below that.

    ``held``: by lower-case ``schema.table``, tables that wait for a schema change, or have stopped,
    or catch up. ``transactions``: for each ts of these positions the last transaction at or below
    it, which says where they lie in another log of the same upstream. It compares as the position
    alone.
    """

    held: Mapping[str, Position]
    transactions: Mapping[Ts, TransactionName]

    def __new__(
        cls,
        ts: Ts,
        row: int = ROW_END,
        held: Mapping[str, Position] | None = None,
        transactions: Mapping[Ts, TransactionName] | None = None,
    ) -> Stand:
        """``held`` and ``transactions`` are empty unless they are given; others are left out."""
        self = super().__new__(cls, ts, row)
        self.held = held or {}
        known = transactions or {}
        used = {ts, *(at.ts for at in self.held.values())}
        self.transactions = {t: known[t] for t in sorted(used) if t in known}
        return self

    def __getnewargs__(self) -> tuple[object, ...]:
        return (self.ts, self.row, dict(self.held), dict(self.transactions))

    def unnamed(self) -> list[Ts]:
        """The ts of which the transaction is not known."""
        return sorted({self.ts, *(at.ts for at in self.held.values())} - self.transactions.keys())

    def of(self, table: str) -> Position:
        """Where a table stands."""
        return self.held.get(table, self)

    def within(self, other: Stand) -> bool:
        """Whether nothing stands higher here than there; ``other`` names all that wait."""
        return self <= other and all(at >= self.of(table) for table, at in other.held.items())

    def to_json(self) -> dict[str, Any]:
        """All but the position itself as JSON takes it: tables, and names of transactions."""
        found: dict[str, Any] = {t: [at.ts, at.row] for t, at in sorted(self.held.items())}
        if self.transactions:
            found[_TRANSACTIONS] = {
                str(ts): name.to_list() for ts, name in self.transactions.items()
            }
        return found

    @classmethod
    def from_json(cls, ts: Ts, row: int, beside: Mapping[str, Any] | None) -> Stand:
        """Reads it back."""
        tables = dict(beside or {})
        names = tables.pop(_TRANSACTIONS, {})
        return cls(
            ts,
            row,
            {table: Position(int(a), int(b)) for table, (a, b) in tables.items()},
            {int(t): TransactionName.of(name) for t, name in names.items()},
        )


def stand(position: Position) -> Stand:
    """The position as a stand that holds no table."""
    return position if isinstance(position, Stand) else Stand(position.ts, position.row)


START = Position(0, ROW_END)
END = Position(MAX_TS, ROW_END)
