"""Are the schemas of two servers equal, and the rows of tables that the load does not write?

It asks the servers' own ``information_schema``, and knows nothing of Tidegate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bench.workload import Connect

_COLUMNS = (
    "SELECT TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT,"
    " COLLATION_NAME, COLUMN_KEY, EXTRA FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s"
)
_PARTITIONS = (
    "SELECT TABLE_NAME, PARTITION_NAME, PARTITION_EXPRESSION, PARTITION_DESCRIPTION"
    " FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = %s AND PARTITION_NAME IS NOT NULL"
)
_EXAMPLES = 3

Facts = dict[str, set[tuple[Any, ...]]]


@dataclass
class Compared:
    """What was compared; ``different`` has a few examples and is empty if all is equal."""

    columns: int = 0
    partitions: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)

    @property
    def proven(self) -> bool:
        """Whether there was something, and no difference."""
        return not self.different and self.columns > 0 and all(self.rows.values())

    def lines(self) -> list[str]:
        """For people."""
        sign = "=" if self.proven else "≠"
        rows = ", ".join(f"{name} {count}" for name, count in sorted(self.rows.items()))
        said = f"{self.columns} columns and {self.partitions} partitions, by information_schema"
        return [
            f"schema       upstream {sign} downstream  {said}",
            f"changed      upstream {sign} downstream  rows of {rows}",
            *(f"  {e}" for e in self.different),
        ]


def compare(upstream: Connect, downstream: Connect, schema: str, loaded: set[str]) -> Compared:
    """All tables of the schema; of those in ``loaded`` only columns and partitions."""
    one, other = (_facts(connect, schema, loaded) for connect in (upstream, downstream))
    found = Compared(len(one["columns"]), len(one["partitions"]))
    for what in sorted({*one, *other}):
        ours, theirs = one.get(what, set()), other.get(what, set())
        if what not in ("columns", "partitions"):
            found.rows[what] = len(ours)
        for side, rows in (("upstream", ours - theirs), ("downstream", theirs - ours)):
            found.different += [
                f"{what}: {side} only: {row}" for row in sorted(rows, key=repr)[:_EXAMPLES]
            ]
    return found


def _facts(connect: Connect, schema: str, loaded: set[str]) -> Facts:
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00'")
        found: Facts = {}
        for name, asked in (("columns", _COLUMNS), ("partitions", _PARTITIONS)):
            cursor.execute(asked, (schema,))
            found[name] = set(cursor.fetchall())
        # Every table here has a key, so that no two of its rows are equal.
        for table in sorted({row[0] for row in found["columns"]} - loaded):
            cursor.execute(f"SELECT * FROM {schema}.{table}")
            found[table] = set(cursor.fetchall())
        return found
