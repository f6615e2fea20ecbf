"""``python -m bench [ITEM ...]``: measure, write ``bench/out/latest.json``, show a table.

A run with less than the defaults writes ``partial.json`` instead.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# Kernels come out of the same cache that set-up filled; numba reads this at its import.
os.environ.setdefault(
    "NUMBA_CACHE_DIR",
    str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate/numba"),
)

from rich.console import Console

from bench import (
    cluster_kafka,
    ddl_pause,
    encode,
    failover,
    figures,
    filter,
    kafka,
    lag,
    merge,
    mysql,
    mysql_lag,
    owner_tick,
    provenance,
    pull,
    quiet,
    remote_log,
    scale,
    schema,
    serve,
    shards_merge,
    snapshot,
    snapshot_latency,
    start,
    sustained,
    trickle,
)
from bench.figures import Figure
from bench.settings import Settings

Item = Callable[[Settings], tuple[list[Figure], dict[str, Any]]]

ITEMS: dict[str, Item] = {
    "kafka_bulk": kafka.bulk,
    "kafka_single": kafka.single,
    "pull": pull.pull,
    "lag": lag.lag,
    "trickle": trickle.trickle,
    "sustained": sustained.sustained,
    "mysql_bulk": mysql.bulk,
    "mysql_single": mysql.single,
    "mysql_global": mysql.global_,
    "mysql_sql": mysql.sql,
    "mysql_lag": mysql_lag.mysql_lag,
    "ddl_pause": ddl_pause.ddl_pause,
    "shard_ddl_pause": ddl_pause.shard_ddl_pause,
    "filter_int": filter.int_,
    "filter_string_ci": filter.string_ci,
    "filter_compile": filter.compile_,
    "kafka_filtered": filter.kafka,
    "encode_debezium": encode.debezium,
    "snapshot_kafka": snapshot.kafka,
    "snapshot_mysql": snapshot.mysql,
    "snapshot_latency": snapshot_latency.latency,
    "schema_tables": schema.tables,
    "merge_txn": merge.txn,
    "shards_merge": shards_merge.shards_merge,
    "cluster_kafka": cluster_kafka.cluster,
    "remote_log": remote_log.remote_log,
    "scale_tables": scale.tables,
    "scale_feeds": scale.feeds,
    "operate": scale.operate,
    "binlog_serve": serve.binlog,
    "store_writes": scale.store_writes,
    "owner_tick_100k": owner_tick.owner_tick,
    "failover": failover.failover,
    "memory_big_txn": quiet.memory,
    "idle_cpu": quiet.idle,
    "start": start.start,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the items; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("items", nargs="*", help=f"of {', '.join(ITEMS)}; default: all")
    parser.add_argument("--server", default=Settings.server, help="database server to read from")
    parser.add_argument("--rows", type=int, default=0, help="rows (or transactions) of a load")
    parser.add_argument("--runs", type=int, default=Settings.runs, help="runs of each side")
    parser.add_argument("--partitions", type=int, default=Settings.partitions)
    parser.add_argument("--codec", default=Settings.codec, help="our compression")
    parser.add_argument("--seconds", type=float, default=0, help="length of lag, sustained, idle")
    parser.add_argument("--no-peers", action="store_true", help="measure our side only")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.items if name not in ITEMS]
    if unknown:
        parser.error(f"no such item: {', '.join(unknown)}; there are {', '.join(ITEMS)}")
    settings = Settings(
        server=given.server,
        rows=given.rows,
        runs=given.runs,
        partitions=given.partitions,
        codec=given.codec,
        seconds=given.seconds,
        peers=not given.no_peers,
    )
    # An end from outside unwinds too, so that no server is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    code = provenance.code()
    stored: list[Figure] = []
    for name in given.items or ITEMS:
        print(f"--- {name}", flush=True)
        began, busy = datetime.now(UTC), os.getloadavg()[0]
        found, runs = ITEMS[name](settings)
        known = provenance.of(settings, code, began, busy)
        stored = figures.store(found, runs, known, whole=settings.whole)
    if not settings.whole:
        print("not a whole run: its figures are in partial.json")
    figures.show(stored, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
