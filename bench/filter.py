"""``filter_int``, ``filter_string_ci``: rows that an expression judges in a second on one core;
``filter_compile``: the time of rules for many tables; ``kafka_filtered``: a whole changefeed.

The rows are those of the bulk load, read from a server's own binlog and located before the clock
starts. What is timed is ``keep_rows`` over chunks as delivery makes them, the decoding of the
columns that the expression needs included; images are raw, and the table has ten columns. The limit
is the figure that the design promises.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import load
from bench.figures import Figure
from bench.ground import ground
from bench.kafka import Load, our_runs
from bench.settings import Settings
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.schema.session import Session
from filter.expr import compile_filter, keep_rows
from filter.expr.rowfilter import RowFilter
from filter.rules import TableRules
from sink.codec.canal.codec import CanalCodec
from sink.codec.canal.settings import CanalSettings
from tests import servers
from tests.codec.binlog_rows import runs_of, table_of

CHUNK_ROWS = 32_768
_ROWS = 200_000
_TABLES = 100_000


@dataclass(frozen=True)
class Item:
    """A figure: its expression and the least rows per second."""

    name: str
    expression: str
    limit: float


INT = Item("filter_int", "k > 50000", 10e6)
STRING = Item("filter_string_ci", "name > 'NAME-000000050000'", 2e6)


def int_(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """One integer comparison."""
    return _measure(INT, settings)


def string_ci(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """One comparison of text without case."""
    return _measure(STRING, settings)


def chunks(server: Any, rows: int) -> tuple[list[RowBatch], Session]:
    """The bulk load as located rows, in chunks of at most CHUNK_ROWS."""
    load.empty(server)
    server.execute("FLUSH BINARY LOGS")
    load.run(server, load.bulk(rows))
    table = table_of(server, load.SCHEMA, load.TABLE)
    version = [int(n) for n in server.version_text.split("-")[0].split(".")[:2]]
    session = Session(mariadb=server.kind == "mariadb", version=(version[0], version[1], 0))
    data = server.binlogs()[-1].read_bytes()
    runs, entries = runs_of(data, {table.full_name: table})
    plans = CanalCodec(CanalSettings()).plan(entries[:1]).plans
    matrix = np.array(runs, np.int64).reshape(-1, L.RUN_SIZE)
    everything = RowBatch(np.frombuffer(data, np.uint8), matrix, rows, plans, "bench")
    found = []
    for at in range(0, len(everything.refs), CHUNK_ROWS):
        chosen = np.zeros(len(everything.refs), np.bool_)
        chosen[at : at + CHUNK_ROWS] = True
        found.append(everything.only(chosen))
    return found, session


def rate(parts: list[RowBatch], judge: RowFilter, seconds: float) -> float:
    """Rows per second of processor time."""
    filters = {0: judge}
    for part in parts:
        keep_rows(part, filters)
    rows, began, until = 0, time.thread_time(), time.monotonic() + seconds
    while time.monotonic() < until:
        for part in parts:
            keep_rows(part, filters)
            rows += len(part.refs)
    return rows / (time.thread_time() - began)


def kafka(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """``kafka_bulk`` with one expression that judges every row, and without; all rows pass."""
    one = Load("kafka_filtered", settings.rows or 600_000, load.bulk, 0)
    sides: dict[str, list[dict[str, Any]]] = {"plain": [], "filtered": []}
    with ground(settings.server) as place:
        for number in range(2):
            # In turns, as the machine and the broker change while it runs.
            for name in sides if number % 2 == 0 else reversed(sides):
                config = _JUDGED if name == "filtered" else ""
                sides[name] += our_runs(one, place, settings, f"{name}{number}", config)[0]
    rates = {k: statistics.median(r["rows_per_s"] for r in v) for k, v in sides.items()}
    name = "kafka_bulk without filter"
    figure = Figure.more(one.name, rates["filtered"], "rows/s", name, rates["plain"])
    return [figure], {one.name: sides}


_JUDGED = """
[[filter.event-filters]]
matcher = ["bench.*"]
ignore-insert-value-expr = "k < 0"
"""


def compile_(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """100 table rules of every form made ready and asked about 100,000 tables."""
    rules = [text for i in range(25) for text in _rules(i)]
    names = [(f"db_{i % 211}", f"table_{i}") for i in range(_TABLES)]
    runs = []
    for _ in range(settings.runs):
        began = time.perf_counter()
        matched = int(TableRules(rules).matches_all(names).sum())
        runs.append(time.perf_counter() - began)
        print(f"filter_compile ours: {runs[-1]:.3f} s, {matched} of {_TABLES} tables match")
    figure = Figure.less("filter_compile", statistics.median(runs), "s", "target", 2.0)
    return [figure], {"filter_compile": {"rules": len(rules), "tables": _TABLES, "seconds": runs}}


def _rules(i: int) -> tuple[str, ...]:
    return (
        f"db_{i}.*",
        f"!db_{i}.table_*{i}",
        rf"/^db_{i}\d$/./^table_\d*{i}$/",
        f"db_?{i}.table_[0-{i % 8 + 1}]*",
    )


def _measure(item: Item, settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    with servers.database(settings.server) as server:
        server.execute(*load.CREATE)
        parts, session = chunks(server, settings.rows or _ROWS)
    table = parts[0].plans.entries[0].table
    judge = compile_filter(table, session, insert=item.expression)
    kept = np.mean([keep_rows(p, {0: judge}).mean() for p in parts])
    runs = [rate(parts, judge, settings.seconds or 2) for _ in range(settings.runs)]
    for r in runs:
        print(f"{item.name} ours: {r:,.0f} rows/s of one core")
    value = statistics.median(runs)
    figure = Figure.more(item.name, value, "rows/s", "target", item.limit)
    detail = {"expression": item.expression, "kept": round(float(kept), 3), "rows_per_s": runs}
    return [figure], {item.name: detail}
