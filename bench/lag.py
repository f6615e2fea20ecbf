"""``lag_p50`` and ``lag_p99``: from when a row was due to its readable message, at 20,000 rows/s.

Each row carries the time at which its statement was due (one statement with autocommit a
transaction). So the statement and its commit count as lag, and whatever holds the writer up counts
for every row that waits behind it: a load that slows down with what it measures hides the worst. A
load that was not offered at its rate is no figure. The reader is a read_committed consumer in a
process of its own, which looks at its clock when ``consume`` returns. Debezium gets the same load
after ours, on the same servers.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import debezium, load, ours
from bench.figures import Figure
from bench.gate import Gate
from bench.ground import Ground, ground
from bench.settings import Settings
from bench.topic import End
from tests.servers import Broker, Database

Seconds = NDArray[np.float64]

ROWS_PER_S = 20_000
_PER_TRANSACTION = 50
SKIP_S = 5.0
FIRST_ID = 10_000_000
# The last statements may be late without slowing the load down.
_OFFERED = 0.98
_STAMP = b'"name":"t'


def lag(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Two minutes of steady rows."""
    seconds = settings.seconds or 120.0
    with ground(settings.server) as place:
        topic = "ours"
        with ours.streaming(
            place.database, place.broker, topic, codec=settings.codec, partitions=1
        ) as feed:
            end = End(place.broker, topic)
            offsets = end.offsets()
            mine = steady(place.database, place.broker, topic, offsets, seconds)
            feed.check()
            end.close()
        found = {"ours": mine}
        if settings.peers:
            found["debezium"] = _debezium(place, seconds)
    figures = [
        Figure.less("lag_p50", mine["p50"], "s", "target", 0.25),
        Figure.less("lag_p99", mine["p99"], "s", "target", 0.7),
    ]
    for part in ("p50", "p99") if settings.peers else ():
        name, peer = f"Debezium {debezium.VERSION} (lz4)", found["debezium"][part]
        figures.append(Figure.less(f"lag_peer_{part}", mine[part], "s", name, peer))
    return figures, {"lag": found}


def _debezium(place: Ground, seconds: float) -> dict[str, float]:
    with warm_debezium(place, "debezium_lag") as (worker, end):
        offsets = end.offsets()
        found = steady(place.database, place.broker, worker.topic, offsets, seconds)
        worker.check()
    return found


@contextmanager
def warm_debezium(place: Ground, name: str) -> Iterator[tuple[debezium.Connect, End]]:
    """Debezium as user ``name``, warmed with as many rows as ours; and the end of its topic."""
    user = Gate(place.database, name)
    user.create()
    load.empty(place.database)
    with debezium.connect(place.broker, user, "d") as worker:
        end = End(place.broker, worker.topic)
        load.run(place.database, load.bulk(ours.WARM_ROWS))
        end.wait([0] * len(end.partitions), ours.WARM_ROWS, worker.check)
        yield worker, end
        end.close()


def steady(
    database: Database,
    broker: Broker,
    topic: str,
    offsets: list[int],
    seconds: float,
    rows_per_s: float = ROWS_PER_S,
    per_transaction: int = _PER_TRANSACTION,
) -> dict[str, float]:
    """Percentiles of the lags of rows that come at a steady rate, in seconds."""
    context = multiprocessing.get_context("spawn")
    rows = int(seconds * rows_per_s)
    here, there = context.Pipe(False)
    reader = context.Process(
        target=_read, args=(broker.bootstrap, topic, offsets, rows, there), daemon=True
    )
    place = {"unix_socket": str(database.socket), "user": "root"}
    mine, its = context.Pipe(False)
    how = (place, rows, rows_per_s, its, per_transaction)
    writer = context.Process(target=write, args=how, daemon=True)
    reader.start()
    time.sleep(2)
    writer.start()
    limit = seconds + 60
    written = receive(mine, limit)
    result = receive(here, 60)
    writer.join()
    reader.join()
    if result["messages"] != rows:
        raise RuntimeError(f"{result['messages']} messages for {rows} rows")
    check_offered(written, rows_per_s)
    print(f"lag of {topic}: written at {written['rows_per_s']:,.0f} rows/s, {json.dumps(result)}")
    return result | written


def receive(connection: Connection, timeout_s: float) -> dict[str, float]:
    """What a process of the measurement found."""
    if not connection.poll(timeout_s):
        raise TimeoutError("no result of the lag measurement in time")
    found: dict[str, float] = connection.recv()
    return found


def check_offered(written: dict[str, float], wanted: float = ROWS_PER_S) -> None:
    """Raise if the load was offered at less than its rate: its lags are another load's then."""
    if written["rows_per_s"] < wanted * _OFFERED:
        raise RuntimeError(
            f"{written['rows_per_s']:,.0f} rows/s were written instead of {wanted:,.0f}: "
            "this machine cannot offer the load"
        )


def write(
    place: dict[str, str],
    rows: int,
    rows_per_s: float,
    result: Connection,
    per_transaction: int = _PER_TRANSACTION,
) -> None:
    """Insert rows from FIRST_ID on at a steady rate, some a transaction; a process of its own.

    Column ``name`` is ``t`` and the Unix time in microseconds at which the statement was due.
    """
    import pymysql

    text = load.row(12345).split(",")
    before, after = ",".join(text[1:5]), ",".join(text[6:])
    with pymysql.connect(**place, database=load.SCHEMA, autocommit=True) as connection:  # type: ignore[arg-type]
        cursor = connection.cursor()
        began = time.time()
        sent = 0
        while sent < rows:
            due = began + sent / rows_per_s
            pause = due - time.time()
            if pause > 0:
                time.sleep(pause)
            stamp = int(due * 1e6)
            ids = range(FIRST_ID + sent, FIRST_ID + sent + per_transaction)
            values = ",".join(f"({i},{before},'t{stamp}',{after}" for i in ids)
            cursor.execute(load.INSERT + values)
            sent += per_transaction
        result.send({"rows_per_s": rows / (time.time() - began)})


def _read(bootstrap: str, topic: str, offsets: list[int], rows: int, result: Connection) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "lag",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
            "fetch.min.bytes": 1,
        }
    )
    consumer.assign([TopicPartition(topic, p, at) for p, at in enumerate(offsets)])
    lags = np.zeros(rows)
    sent = np.zeros(rows)
    count, last = 0, time.time()
    while count < rows and time.time() - last < 30:
        messages = consumer.consume(10_000, timeout=0.01)
        now = time.time()
        for message in messages:
            value = message.value()
            at = value.find(_STAMP)
            if message.error() is not None or at < 0:
                continue
            stamp = int(value[at + len(_STAMP) : at + len(_STAMP) + 16]) / 1e6
            lags[count], sent[count] = now - stamp, stamp
            count += 1
            last = now
    consumer.close()
    result.send(percentiles(lags[:count], sent[:count]) | {"messages": count})


def percentiles(lags: Seconds, sent: Seconds) -> dict[str, float]:
    """Percentiles of the lags of rows sent after the first seconds; ``{}`` without such rows."""
    if not len(sent) or sent.max() <= sent.min() + SKIP_S:
        return {}
    steady = lags[sent > sent.min() + SKIP_S]
    parts = {f"p{q:g}".replace(".", "_"): q for q in (50, 90, 99, 99.9)}
    found = {name: float(np.percentile(steady, q)) for name, q in parts.items()}
    return found | {"max": float(steady.max())}
