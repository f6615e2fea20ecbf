"""``snapshot_latency``: what a copy costs those who use the upstream meanwhile.

One client reads and updates single rows of another table at a steady rate; its latency counts from
when a statement was due. The server and the client have one core, all else has the other, as if the
server had a host of its own: so what is seen is what the copy asks of the server.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import debezium, load, ours
from bench.figures import Figure
from bench.gate import Gate
from bench.ground import Ground, ground
from bench.processes import family
from bench.settings import Settings
from bench.snapshot import COPY_ALL, SERVER
from bench.topic import End
from tests.servers import Database

_ROWS = 2_000_000
_KEYS = range(1, 10_001)
_PER_S = 200
_QUIET_S = 20.0
_LIMIT = 1.2
_SERVER, _OTHERS = {0}, {1}

Seconds = NDArray[np.float64]


def latency(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """The client alone, beside our copy, and beside Debezium's."""
    rows = settings.rows or _ROWS
    with ground(settings.server, SERVER) as place:
        place.database.execute(
            "CREATE TABLE bench.point (id int NOT NULL PRIMARY KEY, n int NOT NULL)",
            "INSERT INTO bench.point VALUES " + ",".join(f"({n}, 0)" for n in _KEYS),
        )
        load.run(place.database, load.bulk(rows))
        _pin(place.database.pid, _SERVER)
        _pin(place.broker.pid, _OTHERS)
        quiet = _beside(place.database, lambda: time.sleep(_QUIET_S))
        found = {"quiet": quiet, "ours": _ours(place, rows, settings)}
        if settings.peers:
            found["debezium"] = _debezium(place, rows, settings)
    mine, limit = found["ours"]["p99_ms"], _LIMIT * quiet["p99_ms"]
    figures = [Figure.less("snapshot_latency_p99", mine, "ms", "20 % above quiet", limit)]
    if settings.peers:
        name, peer = f"Debezium {debezium.VERSION}", found["debezium"]["p99_ms"]
        figures.append(Figure.less("snapshot_latency_p99_peer", mine, "ms", name, peer))
    return figures, {"snapshot_latency": found}


def _ours(place: Ground, rows: int, settings: Settings) -> dict[str, float]:
    gate = Gate(place.database, "ours_latency")
    gate.create()
    with ours.server() as server:
        assert server.process is not None
        _pin(server.process.pid, _OTHERS)
        ours.register(server, gate, "snapshot")
        file = server.data_dir.parent / "snapshot.toml"
        file.write_text(COPY_ALL)
        End.create_topic(place.broker, "latency", settings.partitions)
        end = End(place.broker, "latency")
        sink = f"kafka://{place.broker.bootstrap}/latency?protocol=canal-json"
        words = ["changefeed", "create", "-c", "latency", "--upstream", "snapshot"]

        def copy() -> None:
            server.cli_json(*words, "--sink-uri", sink, "--config", str(file))
            _await(end, rows, settings, lambda: None)

        return _beside(place.database, copy)


def _debezium(place: Ground, rows: int, settings: Settings) -> dict[str, float]:
    user = Gate(place.database, "debezium_latency")
    user.create()
    with debezium.connect(place.broker, user, "dl0", partitions=settings.partitions) as worker:
        _pin(worker.pid, _OTHERS)
        End.create_topic(place.broker, "dl1.bench.t", settings.partitions)
        end = End(place.broker, "dl1.bench.t")

        def copy() -> None:
            worker.copy("dl1")
            _await(end, rows, settings, worker.check)

        return _beside(place.database, copy)


def _await(end: End, rows: int, settings: Settings, check: Callable[[], None]) -> None:
    _, found = end.wait([0] * settings.partitions, rows, check)
    end.close()
    if found < rows:
        raise RuntimeError(f"{found} messages for {rows} rows")


def _beside(database: Database, what: Callable[[], None]) -> dict[str, float]:
    """The client's latency while ``what`` runs, in milliseconds, and how long that took."""
    with _client(database) as answers:
        began = time.monotonic()
        what()
        seconds = time.monotonic() - began
    taken = answers() * 1000
    found = {
        "p50_ms": float(np.percentile(taken, 50)),
        "p99_ms": float(np.percentile(taken, 99)),
        "max_ms": float(taken.max()),
        "statements_per_s": len(taken) / seconds,
        "seconds": seconds,
    }
    print(f"snapshot_latency {json.dumps({k: round(v, 3) for k, v in found.items()})}")
    return found


@contextmanager
def _client(database: Database) -> Iterator[Callable[[], Seconds]]:
    """A client in a process of its own; its latencies, in seconds, once it has ended."""
    ours_end, theirs = multiprocessing.Pipe()
    stop = multiprocessing.Event()
    process = multiprocessing.Process(target=_use, args=(database, stop, theirs))
    process.start()
    taken: list[Seconds] = []
    ours_end.recv()
    try:
        yield lambda: taken[0]
    finally:
        stop.set()
        taken.append(ours_end.recv())
        process.join()


def _use(database: Database, stop: Event, answer: Connection) -> None:
    os.sched_setaffinity(0, _SERVER)
    chosen, taken = random.Random(1), list[float]()
    connection = database.connect()
    cursor = connection.cursor()
    answer.send("ready")
    began = time.monotonic()
    while not stop.is_set():
        due = began + len(taken) / _PER_S
        time.sleep(max(0.0, due - time.monotonic()))
        key = chosen.choice(_KEYS)
        if len(taken) % 2:
            cursor.execute("UPDATE bench.point SET n = n + 1 WHERE id = %s", (key,))
        else:
            cursor.execute("SELECT n FROM bench.point WHERE id = %s", (key,))
            cursor.fetchall()
        taken.append(time.monotonic() - due)
    answer.send(np.array(taken))


def _pin(pid: int, cores: set[int]) -> None:
    """Keep a process and all below it, with all their threads, on these cores."""
    for one in family(pid):
        for task in Path(f"/proc/{one.pid}/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cores)
