"""A topic made from a real server's binlog by the product's own codec, without broker and owner.

Tables keep their order, others may come before or after them: a table that waits for a schema
change does not hold back the rest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kafka.record import MemoryRecords

from cdc.base.ts import compose
from cdc.binlog.query import Query
from cdc.binlog.table_map import TableMap
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.rows.route import Route, RouteMode
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.events import session_of_event, statement_text
from cdc.schema.session import Session
from cdc.schema.table import Table
from sink.codec.canal.codec import CanalCodec
from sink.codec.canal.ddl import ddl_message
from sink.codec.canal.settings import CanalSettings
from sink.dispatch.rules import table_hash
from sink.schema_change import SchemaChange
from tests.codec.binlog_rows import BUILD_MS, events_of, record_batch

_QUERY, _XID, _TABLE_MAP = 2, 16, 19
_ROWS = frozenset((23, 24, 25, 30, 31, 32))
_START_MS = 1_795_000_000_000
_TOGETHER = 12

Placing = Callable[[Table, int], Route]


@dataclass(frozen=True)
class Step:
    """What one commit gives: (partition, value) pairs. No ``tables``: all of them."""

    ts: int
    tables: frozenset[tuple[str, str]]
    messages: tuple[tuple[int, bytes], ...]


def by_table(table: Table, partitions: int) -> Route:
    """All rows of a table in one partition."""
    place = table_hash(table.schema, table.name) % partitions
    return Route(partitions=partitions, partition=place)


def by_key(table: Table, partitions: int) -> Route:
    """Rows spread by their key."""
    if not table.handle_key:
        return by_table(table, partitions)
    return Route(RouteMode.COLUMNS, partitions=partitions, columns=table.handle_key)


def written(server: Any, schema: str, statements: Sequence[str]) -> bytes:
    """Run statements in a new schema; the binlog that they made."""
    server.execute("FLUSH BINARY LOGS")
    server.execute(f"CREATE DATABASE {schema}")
    server.execute(*statements, database=schema)
    return bytes(server.binlogs()[-1].read_bytes())


def steps(
    data: bytes, base: Session, settings: CanalSettings, partitions: int, placing: Placing
) -> Iterator[Step]:
    """The commits of a binlog file from an empty server on."""
    catalog, codec = Catalog(), CanalCodec(settings)
    maps: dict[int, TableMap] = {}
    number, rows, names = 1, [], set()  # type: int, list[tuple[int, bytes]], set[tuple[str, str]]
    for at, code, length in events_of(data):
        body = data[at + 19 : at + length - 4]
        ts = compose(_START_MS + number)
        if code == _TABLE_MAP:
            found = TableMap.parse(body)
            maps[found.table_id] = found
        elif code in _ROWS:
            stored = maps[int.from_bytes(body[:6], "little")]
            table = catalog.table(stored.schema, stored.name)
            assert table is not None, stored.full_name
            entry = (table, stored, placing(table, partitions))
            names.add((table.schema, table.name))
            rows += _messages(codec, data, [at, length, 0, ts, 0, 0, 1 << 40], entry, partitions)
        elif code == _XID or (code == _QUERY and Query.parse(body).raw_sql == b"COMMIT"):
            yield Step(ts, frozenset(names), tuple(rows))
            number, rows, names = number + 1, [], set()
        elif code == _QUERY and Query.parse(body).raw_sql not in (b"BEGIN", b"START TRANSACTION"):
            time_s = int.from_bytes(data[at : at + 4], "little")
            change = _change(ts, Query.parse(body), base, catalog, time_s)
            catalog = change.after
            if change.tables or change.schemas:
                both = (change.before, change.after)
                there = [n for n in change.tables if any(c.has_table(*n) for c in both)]
                if not there and not change.schemas:
                    continue
                value = ddl_message(change, there, settings, BUILD_MS)
                everywhere = tuple((p, value) for p in range(partitions))
                yield Step(ts, frozenset(change.tables), everywhere)
                number += 1


def _change(ts: int, query: Query, base: Session, before: Catalog, time_s: int) -> SchemaChange:
    session = session_of_event(base, query.schema, query.status(), query.error_code)
    sql = statement_text(query.raw_sql, session)
    seen = read_ddl(sql, session)
    return SchemaChange(
        ts=ts,
        sql=sql,
        kind=seen.kind,
        tables=seen.tables,
        schemas=seen.schemas,
        replicated=seen.tables,
        session=session,
        status=query.status(),
        time_s=time_s,
        before=before,
        after=apply(before, seen),
    )


def _messages(
    codec: CanalCodec,
    data: bytes,
    run: list[int],
    entry: tuple[Table, TableMap, Route],
    partitions: int,
) -> Iterator[tuple[int, bytes]]:
    plan = codec.plan([entry])
    runs = np.array([run], np.int64).reshape(1, L.RUN_SIZE)
    located = RowBatch(np.frombuffer(data, np.uint8), runs, 10_000, plan.plans, "test.binlog")
    orders = located.by_destination(np.arange(partitions, dtype=np.int64))
    for partition, order in enumerate(orders):
        for batch in codec.encode(located, plan, order, BUILD_MS):
            for record in MemoryRecords(record_batch(batch)).next_batch():
                yield partition, record.value


def delivered(
    done: Sequence[Step], settings: CanalSettings, partitions: int, rng: random.Random
) -> list[list[bytes]]:
    """The partitions of a topic, tables overtaking one another; watermarks are told between."""
    codec, waiting = CanalCodec(settings), list(done)
    out: list[list[bytes]] = [[] for _ in range(partitions)]
    while waiting:
        free = [s for i, s in enumerate(waiting[:_TOGETHER]) if _free(s, waiting[:i])]
        step = rng.choice(free)
        waiting.remove(step)
        for partition, value in step.messages:
            out[partition].append(value)
        upto = min((s.ts for s in waiting), default=done[-1].ts + 1) - 1
        told = codec.watermark(upto, BUILD_MS)
        for partition in range(partitions):
            if told is not None and (not waiting or rng.random() < 0.3):
                out[partition].append(told.value)
    return out


def _free(step: Step, before: Sequence[Step]) -> bool:
    """Whether nothing that must come first is still to come."""
    return all(s.tables and step.tables and not s.tables & step.tables for s in before)


def consumed(topic: list[list[bytes]], rng: random.Random) -> Iterator[tuple[int, bytes]]:
    """The partitions read in a random interleaving."""
    left = [list(reversed(part)) for part in topic]
    while any(left):
        partition = rng.choice([p for p, part in enumerate(left) if part])
        yield partition, left[partition].pop()
