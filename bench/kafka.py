"""``kafka_bulk`` and ``kafka_single``: from the server's binlog to the last readable message."""

from __future__ import annotations

import re
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import debezium, load, ours
from bench.figures import Figure
from bench.gate import Gate
from bench.ground import Ground, ground
from bench.processes import cpu_by_kind, cpu_seconds
from bench.settings import Settings
from bench.topic import End

_INTERVAL = re.compile(r"(\d+) records sent, ([0-9.]+) records/sec")
# Its JVM compiles in the first seconds; ours is warmed by a whole load.
_WARM_INTERVALS = 1
_PRODUCER_LOADS = 15
_OURS = ("capture", "jvm", "workers")


@dataclass(frozen=True)
class Load:
    """A load: its statements, how many messages it makes, and how many of it make a peer warm."""

    name: str
    rows: int
    statements: Callable[[int], Iterator[str]]
    warm_rows: int


def bulk(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Transactions of 2,000 rows."""
    return _measure(Load("kafka_bulk", settings.rows or 1_000_000, load.bulk, 300_000), settings)


def single(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Transactions of one row: insert, update, delete."""
    return _measure(Load("kafka_single", settings.rows or 250_000, load.single, 100_000), settings)


def _measure(one: Load, settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    with ground(settings.server) as place:
        mine, bytes_each, payload = our_runs(one, place, settings)
        detail: dict[str, Any] = {one.name: {"ours": mine, "message_bytes": bytes_each}}
        rate = statistics.median(r["rows_per_s"] for r in mine)
        figures = []
        if settings.peers:
            theirs = _debezium(one, place, settings)
            detail[one.name]["debezium"] = theirs
            peer = statistics.median(r["rows_per_s"] for r in theirs)
            name = f"Debezium {debezium.VERSION} (lz4)"
            figures.append(Figure.more(one.name, rate, "rows/s", name, peer))
            figures.append(_cpu_per_row(one, mine, theirs, name))
            if one.name == "kafka_bulk":
                tool = _producer(one, place, settings, payload)
                detail[one.name]["producer_performance"] = tool
                best = max(tool, key=lambda c: statistics.median(tool[c]))
                peer = statistics.median(tool[best])
                name = f"kafka ProducerPerformance ({best})"
                figures.append(Figure.more("kafka_bulk_producer", rate, "rows/s", name, peer))
        else:
            figures.append(Figure(one.name, round(rate), "rows/s"))
        return figures, detail


def _cpu_per_row(
    one: Load, mine: list[dict[str, Any]], theirs: list[dict[str, Any]], peer: str
) -> Figure:
    """Processor time of our processes, and of the peer's worker, for a million rows."""
    ours_s = statistics.median(sum(r["cpu_s"][kind] for kind in _OURS) for r in mine)
    peer_s = statistics.median(r["cpu_s"] for r in theirs)
    millions = one.rows / 1e6
    name = one.name.replace("kafka_", "cpu_per_row_")
    unit = "s per million rows"
    return Figure.less(name, ours_s / millions, unit, peer, peer_s / millions)


def our_runs(
    one: Load, place: Ground, settings: Settings, topic: str = "ours", config: str = ""
) -> tuple[list[dict[str, Any]], float, list[bytes]]:
    """Our runs, bytes of a message, and messages; ``config`` is added to the changefeed's file."""
    runs = []
    database = place.database
    with ours.streaming(
        database,
        place.broker,
        topic,
        codec=settings.codec,
        partitions=settings.partitions,
        # The broker's JVM compiles for a while too; the peer, coming second, finds it warm.
        warm_rows=one.rows,
        statements=one.statements,
        config=config,
    ) as feed:
        end = End(place.broker, topic)
        process = feed.server.process
        assert process is not None
        for _ in range(settings.runs):
            feed.gate.close()
            load.empty(database)
            load.run(database, one.statements(one.rows))
            offsets = end.offsets()
            before = cpu_by_kind(process.pid) | _servers(place)
            began = feed.gate.open()
            finished, count = end.wait(offsets, one.rows, feed.check)
            if count != one.rows:
                raise RuntimeError(f"{count} messages for {one.rows} rows")
            after = cpu_by_kind(process.pid) | _servers(place)
            seconds = finished - began
            runs.append(
                {
                    "rows_per_s": one.rows / seconds,
                    "seconds": seconds,
                    "cpu_s": {k: round(after[k] - before[k], 2) for k in after},
                }
            )
            print(f"{one.name} ours: {one.rows / seconds:,.0f} rows/s {runs[-1]['cpu_s']}")
        payload = end.sample(2000, offsets)
        end.close()
    size = sum(map(len, payload)) / len(payload)
    return runs, size, payload


def _servers(place: Ground) -> dict[str, float]:
    return {
        "broker": cpu_seconds(place.broker.pid),
        "database": cpu_seconds(place.database.pid),
    }


def _debezium(one: Load, place: Ground, settings: Settings) -> list[dict[str, Any]]:
    """Runs of one worker that stays up, so that its JVM is as warm as our processes are."""
    runs = []
    user = Gate(place.database, f"debezium_{one.name}")
    user.create()
    with debezium.connect(
        place.broker, user, "d", codec="lz4", partitions=settings.partitions
    ) as worker:
        end = End(place.broker, worker.topic)
        load.empty(place.database)
        load.run(place.database, one.statements(one.warm_rows))
        end.wait([0] * len(end.partitions), one.warm_rows, worker.check)
        for _ in range(settings.runs):
            worker.pause()
            load.empty(place.database)
            load.run(place.database, one.statements(one.rows))
            offsets = end.offsets()
            cpu_s = worker.cpu_s
            began = worker.resume()
            finished, count = end.wait(offsets, one.rows, worker.check)
            seconds = finished - began
            runs.append(
                {
                    "rows_per_s": one.rows / seconds,
                    "seconds": seconds,
                    "messages": count,
                    "cpu_s": round(worker.cpu_s - cpu_s, 2),
                }
            )
            print(f"{one.name} debezium: {one.rows / seconds:,.0f} rows/s ({count} messages)")
        end.close()
    return runs


def _producer(
    one: Load, place: Ground, settings: Settings, payload: list[bytes]
) -> dict[str, list[float]]:
    """Warm rates of Kafka's own producer with messages of ours, by codec."""
    file = Path(place.broker.folder) / "payload"
    file.write_bytes(b"\n".join(payload))
    found: dict[str, list[float]] = {}
    for codec in ("lz4", "none", "zstd"):
        for number in range(settings.runs):
            topic = f"perf-{codec}-{number}"
            End.create_topic(place.broker, topic, settings.partitions)
            command = place.broker.java_command(
                "org.apache.kafka.tools.ProducerPerformance",
                *("--topic", topic, "--num-records", str(one.rows * _PRODUCER_LOADS)),
                *("--payload-file", str(file), "--throughput", "-1", "--producer-props"),
                *(f"bootstrap.servers={place.broker.bootstrap}", "acks=all"),
                *("batch.size=524288", "linger.ms=20", "buffer.memory=134217728"),
                f"compression.type={codec}",
                heap="1g",
            )
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rate = _warm_rate(done.stdout)
            found.setdefault(codec, []).append(rate)
            print(f"{one.name} producer-performance {codec}: {rate:,.0f} records/s")
    return found


def _warm_rate(printed: str) -> float:
    """Records a second over the tool's intervals (of five seconds) but the first.

    The last line repeats the whole, with the time that the JVM took to become warm. A load that is
    over before the second interval ends has only that line.
    """
    *intervals, whole = [(int(n), float(rate)) for n, rate in _INTERVAL.findall(printed)]
    warm = intervals[_WARM_INTERVALS:]
    if not warm:
        return whole[1]
    return sum(n for n, _ in warm) / sum(n / rate for n, rate in warm)
