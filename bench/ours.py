"""A real ``cdc server`` with one upstream and one changefeed, warm and waiting."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import load
from bench.gate import Gate
from bench.topic import End
from tests.api.server_process import CdcServer
from tests.servers import process
from tests.servers.broker import Broker
from tests.servers.database import Database

_CONFIG = """
[source]
# After the gate opens, the next try must not be seconds away.
backoff-max-s = 0.2
"""
_BY_KEY = """
[[sink.dispatchers]]
matcher = ["bench.*"]
partition = "index-value"
"""
WARM_ROWS = 200_000


class Ours:
    """Server, gate of its upstream, and name of its changefeed: the topic, if it has one."""

    def __init__(self, server: CdcServer, gate: Gate, topic: str) -> None:
        self.server, self.gate, self.topic = server, gate, topic

    def check(self) -> None:
        """Raise if the changefeed is not in order."""
        for feed in self.server.cli_json("changefeed", "list", "--all"):
            state = feed.get("state")
            if state != "normal":
                raise RuntimeError(f"changefeed: {feed}")


@contextmanager
def server(folder: Path | None = None, config: str = _CONFIG) -> Iterator[CdcServer]:
    """A started ``cdc server`` whose Spark is ready."""
    place, _ = process.data_folder(folder, "bench")
    settings = place / "server.toml"
    settings.write_text(config)
    one = CdcServer(place / "data", "--config", str(settings))
    try:
        yield one.start()
        one.stop()
    finally:
        one.end()
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)


def register(one: CdcServer, gate: Gate, name: str) -> None:
    """Make the gate's server, as the gate's user, an upstream."""
    uri = f"mysql://{gate.user}:{gate.password}@127.0.0.1:{gate.database.port}"
    one.cli_json("upstream", "create", "-u", name, "--uri", uri)


@contextmanager
def streaming(
    database: Database,
    broker: Broker,
    topic: str,
    *,
    codec: str = "lz4",
    partitions: int = 1,
    tables: tuple[str, ...] = ("bench.t",),
    warm_rows: int = WARM_ROWS,
    statements: Callable[[int], Iterator[str]] = load.bulk,
    config: str = "",
    settings: str = "",
) -> Iterator[Ours]:
    """A changefeed of ``tables`` to ``topic`` that has delivered ``warm_rows`` rows.

    ``config`` is added to its file, ``settings`` to the server's.
    """
    sink = (
        f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json&compression={codec}"
        f"&partition-num={partitions}"
    )
    more = config + (_BY_KEY if partitions > 1 else "")
    with feeding(database, topic, sink, tables=tables, config=more, settings=settings) as ours:
        _wait_topic(broker, topic)
        if warm_rows:
            _warm(database, broker, ours, statements(warm_rows), warm_rows)
        yield ours


@contextmanager
def of_another(database: Database, broker: Broker, create: str, codec: str) -> Iterator[Ours]:
    """A changefeed to topic ``ours``, also of the ``bench.t…`` that ``create`` makes; not warm."""
    database.execute(create)
    tables = ("bench.t*",)
    with streaming(database, broker, "ours", codec=codec, tables=tables, warm_rows=0) as feed:
        yield feed


@contextmanager
def feeding(
    database: Database,
    name: str,
    sink: str,
    *,
    tables: tuple[str, ...] = ("bench.t",),
    top: str = "",
    config: str = "",
    settings: str = "",
) -> Iterator[Ours]:
    """A changefeed of ``tables`` to the sink URI.

    ``top`` begins its file, ``config`` is added to it, ``settings`` to the server's.
    """
    gate = Gate(database, f"ours_{name}"[:32])
    gate.create()
    with server(config=_CONFIG + settings) as one:
        register(one, gate, name)
        file = one.data_dir.parent / "feed.toml"
        file.write_text(f"{top}[filter]\nrules = {json.dumps(tables)}\n{config}")
        words = ["changefeed", "create", "-c", name, "--upstream", name, "--sink-uri", sink]
        one.cli_json(*words, "--config", str(file))
        yield Ours(one, gate, name)


def _warm(
    database: Database, broker: Broker, ours: Ours, statements: Iterator[str], rows: int
) -> None:
    load.empty(database)
    end = End(broker, ours.topic)
    try:
        load.run(database, statements)
        end.wait([0] * len(end.partitions), rows, ours.check)
    finally:
        end.close()


def _wait_topic(broker: Broker, topic: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            return End(broker, topic).close()
        except KeyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
