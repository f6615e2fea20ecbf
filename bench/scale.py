"""``scale_tables``, ``scale_feeds``, ``operate``, ``store_writes``: what many tables, and
changefeeds, cost.

Limits are the design's, for 100,000 tables in 5,000 schemas and for 1,000 changefeeds; fewer of
either (``--rows``) have the same limits but for what goes by their number.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from confluent_kafka import Consumer, TopicPartition

from bench import ours
from bench.figures import Figure
from bench.processes import cpu_by_process, cpu_since, proportional_bytes, python_pids
from bench.settings import Settings
from bench.topic import End
from tests import servers
from tests.api.server_process import CdcServer
from tests.servers import Broker, Database

_TABLES, _TABLES_EACH = 100_000, 20
_FEEDS = 1_000
# Changefeeds of the 20,000 tables, and what the console's first page asks for.
_OPERATED, _TABLES_OF_FEED = 500, 40
_CONSOLE = ("/upstreams?limit=50", "/changefeeds?limit=50", "/changefeeds?state=all&limit=50")
_IDLE_S = 90.0
_SETTLE_S = 5.0
_LOOK_S = 0.002
_LATEST_S = 300.0
_CONFIG = "[changelog]\nfree-space-reserve-bytes = 0\n"
_ROW = "id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(60), price DECIMAL(10,2), at DATETIME"


@dataclass(frozen=True)
class _Place:
    """A capture with one upstream, and a broker."""

    server: CdcServer
    database: Database
    broker: Broker

    @property
    def pid(self) -> int:
        assert self.server.process is not None
        return self.server.process.pid

    def memory(self) -> float:
        """GiB of all our Python processes, shared pages counted once."""
        return sum(map(proportional_bytes, python_pids(self.pid))) / 2**30

    def feed(self, name: str, topic: str, *rules: str, made: bool = False) -> None:
        """Create a changefeed into a topic of one partition, which is made, if it is not there."""
        if not made:
            End.create_topic(self.broker, topic, 1)
        body = {
            "changefeed_id": name,
            "upstream": "up",
            "sink_uri": f"kafka://{self.broker.bootstrap}/{topic}?protocol=canal-json",
            "replica_config": {"filter": {"rules": list(rules)}},
        }
        self.server.api("POST", "/changefeeds", body).raise_for_status()

    def register(self) -> None:
        """Register the database."""
        self.server.cli_json("upstream", "create", "-u", "up", "--uri", self.database.uri())


@contextmanager
def _place(settings: Settings) -> Iterator[_Place]:
    options = ["--table-open-cache=400", "--max-allowed-packet=64M"]
    with (
        servers.database(settings.server, options=options) as database,
        servers.broker(optimized=True) as broker,
        ours.server(config=_CONFIG) as server,
    ):
        yield _Place(server, database, broker)


class _Arrivals:
    """When messages become readable in topics of one partition."""

    def __init__(self, broker: Broker, topics: list[str]) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "bench-scale",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        ends = [
            TopicPartition(topic, 0, self._consumer.get_watermark_offsets(at, timeout=20)[1])
            for topic in topics
            for at in [TopicPartition(topic, 0)]
        ]
        self._consumer.assign(ends)

    def wait(self, count: int) -> list[float]:
        """``time.monotonic()`` of each of the next ``count`` messages; raises TimeoutError."""
        times: list[float] = []
        end = time.monotonic() + _LATEST_S
        while len(times) < count:
            for message in self._consumer.consume(count - len(times), timeout=_LOOK_S):
                if message.error() is None:
                    times.append(time.monotonic())
            if time.monotonic() > end:
                raise TimeoutError(f"{len(times)} of {count} messages in {_LATEST_S:.0f} s")
        return times

    def close(self) -> None:
        self._consumer.close()


def _timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def tables(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """An upstream with many tables, and a changefeed over all of them."""
    count = settings.rows or _TABLES
    share = count / _TABLES
    with _place(settings) as place:
        idle = place.memory()
        _make(place.database, count)
        figures = [
            _limit("scale_tables_register", _timed(place.register), 90 * share),
            _limit(
                "scale_tables_create", _timed(lambda: place.feed("all", "all", "*.*")), 90 * share
            ),
        ]
        arrivals = _Arrivals(place.broker, ["all"])
        seen = min(count, 2_000)
        _rows(place.database, seen)
        arrivals.wait(seen)
        figures += _after(place, arrivals, count)
        arrivals.close()
        figures.append(
            _limit("scale_tables_memory", place.memory() - idle, 2.0, "GiB over the start")
        )
    for figure in figures:
        print(f"{figure.name} ours: {figure.value:g} {figure.unit}")
    return figures, {"scale_tables": {"tables": count, "seen": seen}}


def _after(place: _Place, arrivals: _Arrivals, count: int) -> list[Figure]:
    """What a warm changefeed does with an ALTER, with an idle time, and with questions."""
    cli = place.server.cli_json
    row = "INSERT INTO s0.t0 (name) VALUES ('x')"
    place.database.execute("ALTER TABLE s0.t0 ADD COLUMN more INT")
    # The change itself is a message too, and the row is sent when it has come.
    arrivals.wait(1)
    began = time.monotonic()
    place.database.execute(row)
    altered = arrivals.wait(1)[0] - began
    time.sleep(_IDLE_S)
    began = time.monotonic()
    place.database.execute(row)
    idled = arrivals.wait(1)[0] - began
    began_s = (
        _timed(lambda: cli("changefeed", "list")),
        _timed(lambda: cli("changefeed", "query", "-c", "all")),
    )
    return [
        _limit("scale_tables_altered", altered, 0.3),
        _limit("scale_tables_idle_row", idled, 0.5),
        _limit("scale_tables_list", began_s[0], 1.0),
        _limit("scale_tables_query", began_s[1], 1.0),
    ]


def _limit(name: str, value: float, limit: float, unit: str = "s") -> Figure:
    return Figure.less(name, value, unit, "target", limit)


def _make(database: Database, count: int) -> None:
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        for number in range(count):
            schema, table = divmod(number, _TABLES_EACH)
            if not table:
                cursor.execute(f"CREATE DATABASE s{schema}")
            # No two are alike, as shards would be, of which each is read once.
            cursor.execute(f"CREATE TABLE s{schema}.t{table} ({_ROW}, c{number} INT)")


def _rows(database: Database, count: int) -> None:
    with database.connect() as connection, connection.cursor() as cursor:
        for number in range(count):
            schema, table = divmod(number, _TABLES_EACH)
            cursor.execute(f"INSERT INTO s{schema}.t{table} (name) VALUES ('a')")


def feeds(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Many changefeeds of one table, each into a topic of its own."""
    count = settings.rows or _FEEDS
    with _place(settings) as place:
        place.database.execute("CREATE DATABASE s", f"CREATE TABLE s.t ({_ROW})")
        place.register()
        names = [f"feed-{number}" for number in range(count)]
        created = _timed(lambda: [place.feed(name, name, "s.t") for name in names])
        arrivals = _Arrivals(place.broker, names)
        _one_row(place, arrivals, count)
        first, last = _one_row(place, arrivals, count)
        idle = _idle(place, settings.seconds or 30.0)
        cli = place.server.cli_json
        figures = [
            Figure("scale_feeds_create", round(created / count, 3), "s each"),
            _limit("scale_feeds_idle", 100 * idle, 20.0, "% of a core"),
            Figure("scale_feeds_first_row", round(first, 3), "s"),
            _limit("scale_feeds_last_row", last, 5.0),
            _limit("scale_feeds_list", _timed(lambda: cli("changefeed", "list")), 1.0),
            _limit(
                "scale_feeds_pause",
                _timed(lambda: cli("changefeed", "pause", "-c", names[0])),
                1.0,
            ),
            Figure("scale_feeds_memory", round(place.memory(), 2), "GiB"),
            Figure("scale_feeds_files", float(_files(place.pid)), "files, most of a process"),
        ]
        arrivals.close()
    for figure in figures:
        print(f"{figure.name} ours: {figure.value:g} {figure.unit}")
    return figures, {"scale_feeds": {"feeds": count}}


def operate(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """What an operator waits for where there are many changefeeds, each of some tables."""
    count = settings.rows or _OPERATED
    runs = max(3, settings.runs)
    with _place(settings) as place:
        _make(place.database, count * _TABLES_OF_FEED)
        place.register()
        names = [f"feed-{number}" for number in range(count)]
        created = []
        for number, name in enumerate(names):
            rules = [f"s{number * _TABLES_OF_FEED // _TABLES_EACH + i}.*" for i in range(2)]
            End.create_topic(place.broker, name, 1)
            created.append(_timed(partial(place.feed, name, name, *rules, made=True)))
        cli, some = place.server.cli_json, names[: 2 * runs]
        waits = {
            "create": created[-20:],
            "pause": [_timed(lambda n=n: cli("changefeed", "pause", "-c", n)) for n in some],
            "resume": [_timed(lambda n=n: cli("changefeed", "resume", "-c", n)) for n in some],
            "query": [_timed(lambda n=n: cli("changefeed", "query", "-c", n)) for n in some],
            "list": [_timed(lambda: cli("changefeed", "list")) for _ in range(runs)],
            "console": [_timed(partial(_console, place)) for _ in range(runs)],
        }
        memory = place.memory()
    figures = [_limit(f"operate_{verb}", median(took), 1.0) for verb, took in waits.items()]
    figures.append(Figure("operate_memory", round(memory, 2), "GiB"))
    for figure in figures:
        print(f"{figure.name} ours: {figure.value:g} {figure.unit}")
    longest = {f"{verb}_longest_s": round(max(took), 3) for verb, took in waits.items()}
    return figures, {"operate": {"feeds": count, "tables": count * _TABLES_OF_FEED, **longest}}


def _console(place: _Place) -> None:
    """What the console's first page asks for, one after the other."""
    for path in _CONSOLE:
        place.server.api("GET", path).raise_for_status()


def store_writes(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Transactions of the store per second while many changefeeds deliver one busy table."""
    count, seconds = settings.rows or _FEEDS, settings.seconds or 30.0
    with _place(settings) as place:
        place.database.execute("CREATE DATABASE s", f"CREATE TABLE s.t ({_ROW})")
        place.register()
        names = [f"feed-{number}" for number in range(count)]
        for name in names:
            place.feed(name, name, "s.t")
        arrivals = _Arrivals(place.broker, names)
        _one_row(place, arrivals, count)
        with _busy(place.database):
            time.sleep(_SETTLE_S)
            before, began = _transactions(place), time.monotonic()
            time.sleep(seconds)
            rate = (_transactions(place) - before) / (time.monotonic() - began)
        came = len(arrivals.wait(count))
        arrivals.close()
    figure = _limit("store_writes", rate, 200.0, "transactions/s")
    print(f"{figure.name} ours: {figure.value:g} {figure.unit}")
    return [figure], {"store_writes": {"feeds": count, "messages": came}}


@contextmanager
def _busy(database: Database) -> Iterator[None]:
    """A row every 20 ms, so that no changefeed is ever without work."""
    stopping = threading.Event()

    def write() -> None:
        while not stopping.wait(0.02):
            database.execute("INSERT INTO s.t (name) VALUES ('x')")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _transactions(place: _Place) -> float:
    """How many the store has carried out since the capture's start, by its own count."""
    text = httpx.get(f"{place.server.url}/metrics", trust_env=False, timeout=60).text
    kinds = r'tidegate_store_operation_seconds_count\{operation="(?:progress_)?txn"\} (\S+)'
    return sum(float(found) for found in re.findall(kinds, text))


def _one_row(place: _Place, arrivals: _Arrivals, count: int) -> tuple[float, float]:
    began = time.monotonic()
    place.database.execute("INSERT INTO s.t (name) VALUES ('x')")
    times = arrivals.wait(count)
    return times[0] - began, times[-1] - began


def _idle(place: _Place, seconds: float) -> float:
    """Cores that are busy without a change."""
    time.sleep(10)
    before, began = cpu_by_process(place.pid), time.monotonic()
    time.sleep(seconds)
    return sum(cpu_since(before, place.pid).values()) / (time.monotonic() - began)


def _files(pid: int) -> int:
    return max(len(list(Path(f"/proc/{p}/fd").iterdir())) for p in python_pids(pid))
