"""Which bucket a row goes to: one that keeps every conflict of the target in commit order.

A bucket is one connection with one ledger position. Rows of a table are spread over all buckets by
their primary key only where two rows can never conflict otherwise: no other unique key on either
side, no foreign key at the target, and a key whose values are equal only if their bytes are. A key
of one integer is spread in blocks of neighbours, so that connections work on pages of their own.
Every other table lives whole in one bucket; tables that foreign keys tie together share it.

Tables that become one at the target (a shard group) are placed as one, by its name: wherever a key
comes from, it goes to the same bucket.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from cdc.schema.table import Column, Index, Table
from sink.contract import Layout
from sink.dispatch.rules import Route
from sink.dispatch.settings import PartitionMode
from sink.dispatch.target import NO_RULES, TargetRouter
from sink.mysql.errors import TargetNotPlaced

TARGET = "mysql"
"""Name of the destinations: ``(TARGET, bucket)``."""

SPREAD: Final = -1
"""In place of a bucket: rows go by the hash of their primary key."""

BLOCKS: Final = -2
"""In place of a bucket: rows go by the block that their integer key lies in."""

Shared = Mapping[str, str]
"""By lower-case ``schema.table`` of each table that becomes one with others: the one's name."""

NOT_SHARED: Final[Shared] = MappingProxyType({})

BLOCK_BITS: Final = 10
"""A block is ``2 ** BLOCK_BITS`` neighbours: several pages, and many blocks in a bulk window."""

_INTEGERS: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))
_EXACT: Final = frozenset(
    {
        *_INTEGERS,
        *("decimal", "bit", "year"),
        *("date", "time", "datetime", "timestamp", "binary", "varbinary"),
        *("uuid", "inet4", "inet6"),
    }
)


@dataclass(frozen=True)
class Placement:
    """``tables``: by ``schema.table`` the bucket, SPREAD or BLOCKS. Kept with the ledger."""

    buckets: int = 1
    tables: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """The form in the ledger."""
        return json.dumps({"buckets": self.buckets, "tables": dict(self.tables)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Placement:
        """Reads it back."""
        value = json.loads(text)
        return cls(int(value["buckets"]), {str(k): int(v) for k, v in value["tables"].items()})

    def joined(
        self,
        wanted: Placement,
        tied: Iterable[tuple[str, str]] = (),
        ahead: Callable[[str], bool] = lambda table: True,
        shared: Shared = NOT_SHARED,
    ) -> Placement:
        """This one where a bucket is ``ahead`` with a table (lower case) or one tied to it.

        There, a table that it does not know is placed whole: beside those that it is ``tied`` to,
        as (child, parent) pairs say, if they lie whole in a bucket; else where its name falls. One
        that is ``shared`` goes as the others of its group do. All other tables are where they are
        ``wanted``, over as many buckets.
        """
        groups = _components(tied)
        units = {t: _unit(t, shared) for t in (*self.tables, *wanted.tables)}
        known = {groups[units[t]]: b for t, b in self.tables.items() if units[t] in groups}
        siblings = {units[t]: b for t, b in self.tables.items() if t.lower() in shared}
        busy = {groups.get(unit, unit) for t, unit in units.items() if ahead(t.lower())}
        joined = dict(self.tables)
        for name, bucket in wanted.tables.items():
            unit = units[name]
            group = groups.get(unit, unit)
            if group not in busy:
                joined[name] = bucket
            elif name not in self.tables and unit in siblings:
                joined[name] = siblings[unit]
            elif name not in self.tables:
                beside = known.get(group, SPREAD)
                joined[name] = _bucket(group, self.buckets) if beside < 0 else beside
        return Placement(self.buckets, joined)

    @property
    def layout(self) -> Layout:
        """As the processor carries it to the workers."""
        return Layout({TARGET: self.buckets}, self.tables)


class BucketRoutes:
    """Routes of tables (``sink.contract.Routes``) under a layout that a placement made."""

    def __init__(self, layout: Layout, names: TargetRouter = NO_RULES) -> None:
        self._buckets = layout.counts[TARGET]
        self._placed = layout.placed
        self._names = names

    def route(self, table: Table) -> Route:
        """Raises :class:`TargetNotPlaced` for a table that came after the last recovery."""
        bucket = self._placed.get(table.full_name)
        if bucket is None:
            raise TargetNotPlaced(
                "it has no bucket yet",
                object=table.full_name,
                hint="delivery recovers by itself and gives it one",
            )
        if bucket >= 0:
            return Route(TARGET, PartitionMode.TABLE, (), self._buckets, bucket)
        columns = tuple(table.columns[i].name for i in table.handle_key)
        block = BLOCK_BITS if bucket == BLOCKS and _counts(table) else 0
        hashed = self._names.target(table.schema, table.name) if self._names.merging else None
        return Route(TARGET, PartitionMode.INDEX_VALUE, columns, self._buckets, 0, block, hashed)


def place(
    tables: Sequence[Table],
    targets: Mapping[str, Table],
    references: Iterable[tuple[str, str]],
    buckets: int,
    shared: Shared = NOT_SHARED,
) -> Placement:
    """A placement over ``buckets``.

    ``targets`` are the target's tables by ``schema.table`` (one that is not there is placed
    whole), ``references`` the (child, parent) pairs of foreign keys at the target, between tables
    or the groups that they are ``shared`` in.
    """
    groups = _components(references)
    placed, apart, whole = {}, {}, set()
    for table in tables:
        name = table.full_name
        unit = _unit(name, shared)
        target = targets.get(name)
        free = unit not in groups and target is not None and spreads(table, target)
        if free and buckets > 1:
            apart[name] = BLOCKS if _counts(table) else SPREAD
        else:
            whole.add(unit)
        placed[name] = _bucket(groups.get(unit, unit), buckets)
    return Placement(
        buckets, placed | {n: how for n, how in apart.items() if _unit(n, shared) not in whole}
    )


def parted(
    placed: Mapping[str, int],
    wanted: Placement,
    tied: Iterable[tuple[str, str]],
    shared: Shared = NOT_SHARED,
) -> frozenset[str]:
    """Tables, in lower case, whose rows ``placed`` sets apart and that must lie together now.

    ``wanted`` says what a table's own keys allow, ``tied`` which foreign keys (child, parent) the
    target has: what a cascade changes must not be in another bucket than the row that begins it.
    Tables of a ``shared`` group must go the same way.
    """
    groups = _components(tied)
    buckets: dict[str, set[int]] = {}
    ways: dict[str, set[int]] = {}
    for name, bucket in placed.items():
        unit = _unit(name, shared)
        ways.setdefault(unit, set()).add(bucket)
        if unit in groups:
            buckets.setdefault(groups[unit], set()).add(bucket)
    apart = {group for group, found in buckets.items() if len(found) > 1 or min(found) < 0}
    found = {
        name.lower()
        for name in placed
        if groups.get(unit := _unit(name, shared)) in apart or len(ways[unit]) > 1
    }
    whole = {name for name, bucket in wanted.tables.items() if bucket >= 0}
    return frozenset(found | {name.lower() for name in whole if placed.get(name, 0) < 0})


def spreads(source: Table, target: Table) -> bool:
    """Whether rows of different primary keys can never conflict, on what both sides say."""
    keys = []
    for table in (source, target):
        unique = [i for i in table.indexes if i.unique or i.primary]
        if len(unique) != 1 or not _is_exact(table, unique[0]):
            return False
        columns = [table.columns[table.positions[name.lower()]] for name in unique[0].columns]
        # A key that the target rounds could make one of two.
        keys.append({(c.name.lower(), c.data_type, c.scale or 0) for c in columns})
    return keys[0] == keys[1]


def _is_exact(table: Table, key: Index) -> bool:
    if not key.primary or table.versioned or table.periods:
        return False
    if "" in key.columns or any(p is not None for p in key.prefixes):
        return False
    return all(_exact(table.columns[table.positions[name.lower()]]) for name in key.columns)


def _exact(column: Column) -> bool:
    """Whether two values are equal only if their bytes in a row image are."""
    collation = column.collation or ""
    if column.data_type == "char":
        # Stored without the spaces at its end, whatever the collation makes of them.
        return collation == "binary" or collation.endswith("_bin")
    if column.data_type == "varchar":
        return collation in ("binary", "utf8mb4_0900_bin") or collation.endswith("_nopad_bin")
    return column.data_type in _EXACT


def _counts(table: Table) -> bool:
    """Whether the key is one integer."""
    key = table.handle_key
    return len(key) == 1 and table.columns[key[0]].data_type in _INTEGERS


def _unit(name: str, shared: Shared) -> str:
    """What a table is placed by: its name in lower case, or that of its group."""
    return shared.get(name.lower(), name.lower())


def _bucket(name: str, buckets: int) -> int:
    return zlib.crc32(name.encode()) % buckets


def _components(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """By name of each table with a foreign key: the least name that it is tied to."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for child, parent in pairs:
        a, b = sorted((find(child.lower()), find(parent.lower())))
        root[b] = a
    return {name: find(name) for name in root}
