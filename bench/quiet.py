"""``memory_big_txn`` and ``idle_cpu``: what our processes take."""

from __future__ import annotations

import statistics
import time
from typing import Any

from bench import ours
from bench.figures import Figure
from bench.ground import ground
from bench.ours import Ours
from bench.processes import (
    Sampler,
    cpu_by_process,
    cpu_since,
    own_bytes,
    proportional_bytes,
    python_pids,
)
from bench.settings import Settings
from bench.topic import End
from tests.servers.database import Database

MIB = 1 << 20
_ROW_BYTES = 8192
_SAMPLE_S = 0.15
_CREATE = "CREATE TABLE bench.t2 (id bigint NOT NULL PRIMARY KEY, payload mediumtext NOT NULL)"


def _pid(feed: Ours) -> int:
    assert feed.server.process is not None
    return feed.server.process.pid


def memory(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """One transaction of 2 GiB: how far memory of all our Python processes grows over idle.

    Idle is before the first row, so that buffers that stay are part of the growth.
    RssAnon and RssShmem of the capture, of Spark's Python daemon and of its workers, summed up:
    pages of the log's files are not in it, pages that workers share are counted for each. What they
    have while idle is also told with these counted once.
    """
    doublings = 18 if not settings.rows else max(1, settings.rows.bit_length() - 1)
    with (
        ground(settings.server) as place,
        ours.of_another(place.database, place.broker, _CREATE, settings.codec) as feed,
    ):
        pid = _pid(feed)

        def used() -> float:
            return float(sum(own_bytes(p) for p in python_pids(pid)))

        with Sampler(used, _SAMPLE_S) as before:
            time.sleep(5)
        idle = statistics.median(value for _, value in before.samples)
        each = {p: round(own_bytes(p) / MIB) for p in python_pids(pid)}
        unshared = sum(proportional_bytes(p) for p in python_pids(pid)) / MIB
        end = End(place.broker, "ours")
        offsets = end.offsets()
        with Sampler(used, _SAMPLE_S) as during:
            size = _transaction(place.database, doublings)
            _, count = end.wait(offsets, 1 << doublings, feed.check, stall_s=300)
        end.close()
    growth = (during.highest - idle) / MIB
    print(f"memory: idle {idle / MIB:,.0f} MiB, grown by {growth:,.0f} MiB, {size / 2**30:.2f} GiB")
    print(f"memory: idle by process {each}, shared pages counted once {unshared:,.0f} MiB")
    detail = {
        "idle_mib": idle / MIB,
        "idle_unshared_mib": unshared,
        "growth_mib": growth,
        "bytes": size,
        "messages": count,
    }
    return [
        Figure.less("memory_big_txn", growth, "MiB over idle", "target", 512),
        Figure.less("memory_idle", unshared, "MiB", "target", 400),
    ], {"memory_big_txn": detail}


def _transaction(database: Database, doublings: int) -> int:
    payload = f"REPEAT(MD5(%s), {_ROW_BYTES // 32})"
    with database.connect(database="bench", autocommit=False) as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO t2 VALUES (0, {payload % 0})")
            for n in range(doublings):
                shifted = f"id + {1 << n}"
                cursor.execute(f"INSERT INTO t2 SELECT {shifted}, {payload % shifted} FROM t2")
        connection.commit()
    return (1 << doublings) * _ROW_BYTES


def idle(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """One quiet changefeed: processor time of all our processes."""
    seconds = settings.seconds or 60.0
    with (
        ground(settings.server) as place,
        ours.streaming(place.database, place.broker, "ours", codec=settings.codec) as feed,
    ):
        time.sleep(10)
        before, began = cpu_by_process(_pid(feed)), time.monotonic()
        time.sleep(seconds)
        used, took = cpu_since(before, _pid(feed)), time.monotonic() - began
    shares = {kind: 100 * seconds / took for kind, seconds in used.items()}
    total = sum(shares.values())
    print(f"idle: {total:.2f} % of a core, {shares}")
    figures = [Figure.less("idle_cpu", total, "% of a core", "target", 3.0)]
    figures += [Figure(f"idle_cpu_{k}", round(v, 2), "% of a core") for k, v in shares.items()]
    return figures, {"idle_cpu": shares}
