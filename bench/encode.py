"""``encode_debezium``: rows that one core turns into records with keys, beside canal-json.

Also as ``maxwell``. Five columns, no schemas; rows of a server's own binlog, located before the
clock starts, which know their transactions as those of a log do. All formats encode the same rows
in the same run, in turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np

from bench import load
from bench.figures import Figure
from bench.settings import Settings
from cdc.changelog.index import Runs
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.rows.transactions import RunTransactions
from sink.codec.canal.codec import CanalCodec
from sink.codec.canal.settings import CanalSettings
from sink.codec.contract import EncodeLimits, Framing, MessageCodec
from sink.codec.debezium.codec import DebeziumCodec
from sink.codec.debezium.settings import DebeziumSettings
from sink.codec.maxwell.codec import MaxwellCodec
from sink.codec.maxwell.settings import MaxwellSettings
from tests import servers
from tests.codec.binlog_rows import runs_of, table_of

LEAST = 1e6
_ROWS = 200_000
_AT_ONCE = 1000
_TABLE = (
    "CREATE TABLE five (id bigint PRIMARY KEY, k int NOT NULL, amount decimal(14,2) NOT NULL,"
    " name varchar(40) NOT NULL, created datetime(3) NOT NULL) DEFAULT CHARSET utf8mb4"
)


def debezium(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Rows per second of processor time, without schemas."""
    with servers.database(settings.server) as server:
        server.execute(*load.CREATE)
        server.execute(
            "FLUSH BINARY LOGS", _TABLE, *_inserts(settings.rows or _ROWS), database="bench"
        )
        table = table_of(server, load.SCHEMA, "five")
        data = server.binlogs()[-1].read_bytes()
    runs, entries = runs_of(data, {table.full_name: table})
    matrix = np.array(runs, np.int64)
    # A transaction for each event; a few of them are one in the binlog.
    matrix[:, L.RUN_TS] += np.arange(len(matrix))
    transactions = RunTransactions(
        Runs.build(
            len(matrix),
            commit_ts=matrix[:, L.RUN_TS],
            gtid_source=0,
            gtid_seq=np.arange(1, len(matrix) + 1),
            upstream_file=7,
            upstream_pos=matrix[:, L.RUN_OFFSET],
        ),
        {0: "0-1"},
        binlog="binlog",
    )

    def measured(codec: MessageCodec[Any]) -> Callable[[], float]:
        plan = codec.plan(entries[:1], codec.no_tables)
        rows = RowBatch(
            np.frombuffer(data, np.uint8),
            matrix,
            settings.rows or _ROWS,
            plan.plans,
            "bench",
            transactions,
        )
        return lambda: _rate(codec, plan, rows, settings.seconds or 2)

    codecs: dict[str, MessageCodec[Any]] = {
        "canal-json": CanalCodec(CanalSettings()),
        "debezium": DebeziumCodec(DebeziumSettings(name="bench", debezium_disable_schema=True)),
        "debezium with schemas": DebeziumCodec(DebeziumSettings(name="bench")),
        "maxwell": MaxwellCodec(MaxwellSettings()),
    }
    sides = {name: measured(codec) for name, codec in codecs.items()}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(settings.runs):
        for name, side in sides.items():
            rates[name].append(side())
            print(f"encode_debezium {name}: {rates[name][-1]:,.0f} rows/s of one core")
    middle = {name: statistics.median(found) for name, found in rates.items()}
    ours = middle["debezium"]
    figures = [
        Figure.more("encode_debezium", ours, "rows/s", "target", LEAST),
        Figure.more("encode_debezium_canal", ours, "rows/s", "canal-json", middle["canal-json"]),
        Figure.more("encode_maxwell", middle["maxwell"], "rows/s", "target", LEAST),
    ]
    return figures, {"encode_debezium": {"rows_per_s": rates}}


def _inserts(rows: int) -> Iterator[str]:
    for first in range(0, rows, _AT_ONCE):
        values = ",".join(
            f"({i},{i % 100003},{i % 1000000}.{i % 100:02d},'name-{i:012d}',"
            f"'2026-0{1 + i % 9}-1{i % 10} 12:{i % 60:02d}:00.{i % 1000:03d}')"
            for i in range(first, min(first + _AT_ONCE, rows))
        )
        yield f"INSERT INTO five VALUES {values}"


def _rate(codec: MessageCodec[Any], plan: Any, rows: RowBatch, seconds: float) -> float:
    order = np.arange(len(rows.refs))
    limits, now_ms = EncodeLimits(batch=4_000_000), time.time_ns() // 1_000_000
    done, began, until = 0, time.thread_time(), time.monotonic() + seconds
    while time.monotonic() < until:
        # What is found once for a chunk of rows is found again, as of another one.
        for batch in codec.encode(
            copy(rows), plan, order, now_ms, limits=limits, framing=Framing.RECORDS, buffer=None
        ):
            done += batch.rows
    return done / (time.thread_time() - began)
