"""What a target, a topic and files have of the tables of the upstream, compared row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.fold import TableResult, Verdict
from bench.histories import Histories
from bench.snapshot_load import SCHEMA, TABLES
from tests.servers import Database

_EXAMPLES = 5


def judge(
    upstreams: Sequence[Database],
    target: Database,
    target_schema: str,
    ends: Mapping[str, Iterable[Any]],
) -> Verdict:
    """Of each table what the target has, and what a consumer makes of each of ``ends``.

    A table has the rows of all ``upstreams``, which define it alike.
    These are messages of canal-json by the name of where they came, those of a table in their
    order. Rows that are missing anywhere are lost, those that are there too often are duplicated; a
    history of a key that is broken is in disorder. A message from before a column was added has its
    default, as the consumer carries the ALTER out.
    """
    consumed = {name: Histories() for name in ends}
    for name, bodies in ends.items():
        for body in bodies:
            consumed[name].take(body)
    results, lost, twice = [], 0, 0
    for table in TABLES:
        wanted = sum((_texts(upstream, table, SCHEMA) for upstream in upstreams), Counter())
        columns = _columns(upstreams[0], table)
        have = {"target": _texts(target, table, target_schema)}
        for name, histories in consumed.items():
            rows = histories.rows(table)
            have[name] = Counter(
                tuple(row.get(c, default) for c, default in columns) for row in rows
            )
        for end, found in have.items():
            result = TableResult(f"{table}, {end}", wanted.total(), found.total())
            missing, too_many = wanted - found, found - wanted
            for what, differing in (("missing", missing), ("too many", too_many)):
                for row, count in differing.items():
                    result.note(f"{what}: {count} of {row}")
            lost += missing.total()
            twice += too_many.total()
            results.append(result)
    broken = [f"{name}: {what}" for name, h in consumed.items() for what in h.broken]
    return Verdict(results, lost, twice, len(broken), 0, broken[:_EXAMPLES])


def _texts(db: Database, table: str, schema: str) -> Counter[tuple[str | None, ...]]:
    """Rows as texts, as a topic has them."""
    rows = db.execute(f"SELECT * FROM {schema}.{table}")
    return Counter(tuple(map(_text, row)) for row in rows)


def _columns(db: Database, table: str) -> list[tuple[str, str | None]]:
    """Columns in their order, with the default of each."""
    found = db.execute(
        "SELECT column_name, column_default FROM information_schema.columns WHERE table_schema ="
        f" '{SCHEMA}' AND table_name = '{table}' ORDER BY ordinal_position"
    )
    # MariaDB has them as SQL, MySQL as values.
    plain = {"NULL": None}
    return [(name, plain.get(d, d.strip("'")) if d else None) for name, d in found]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
