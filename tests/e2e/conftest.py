"""One capture for each module, on the session's servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.topics import Message
from tests.servers import Broker, Database
from tests.servers.etcd import Etcd

CaptureMaker = Callable[..., CaptureProcess]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaptureMaker]:
    """Return a function that starts a capture on a data folder of its own."""
    with ExitStack() as stack:

        def give(**how: str) -> CaptureProcess:
            capture = CaptureProcess(tmp_path_factory.mktemp("capture"), **how)
            stack.callback(capture.close)
            return capture.start()

        yield give


@pytest.fixture(scope="module")
def capture(captures: CaptureMaker) -> CaptureProcess:
    """Return the module's capture."""
    return captures()


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    """Return the module's etcd, of one member."""
    with servers.etcd() as made:
        yield made


@dataclass(frozen=True)
class Way:
    """From a schema of one server through a capture to topics whose names begin with it."""

    capture: CaptureProcess
    database: Database
    broker: Broker
    upstream: str
    schema: str

    def execute(self, *statements: str) -> list[tuple[object, ...]]:
        """Run statements in the schema."""
        return self.database.execute(*statements, database=self.schema)

    def sink(self, topic: str = "", **options: object) -> str:
        """Return a sink URI."""
        pairs = {"protocol": "canal-json", "write-timeout": "2s", "read-timeout": "2s"} | {
            k.replace("_", "-"): str(v).lower() for k, v in options.items()
        }
        query = "&".join(f"{k}={v}" for k, v in pairs.items())
        return f"kafka://{self.broker.bootstrap}/{topic or self.schema}?{query}"

    @property
    def name(self) -> str:
        """Return a changefeed id of this test alone."""
        return self.schema.replace("_", "-")

    def create(self, *tables: str, **more: object) -> str:
        """Create a changefeed over the schema's tables (all, if none is named); its id."""
        sink = more.pop("sink", None) or self.sink()
        rules = [f"{self.schema}.{t}" for t in tables or ("*",)]
        self.capture.create(self.name, self.upstream, str(sink), rules, **more)  # type: ignore[arg-type]
        return self.name

    @contextmanager
    def written(self, *tables: str) -> Iterator[list[int]]:
        """Transactions with a row of each table, one after the other; ids of those committed."""
        stop, ids = threading.Event(), list[int]()

        def write() -> None:
            with self.database.connect(database=self.schema) as connection:
                connection.autocommit(False)
                while not stop.wait(0.01):
                    with connection.cursor() as cursor:
                        for table in tables:
                            cursor.execute(f"INSERT INTO {table} VALUES ({len(ids) + 1})")
                    connection.commit()
                    ids.append(len(ids) + 1)

        writing = threading.Thread(target=write)
        writing.start()
        try:
            yield ids
        finally:
            stop.set()
            writing.join()

    def delivered(self, timeout_s: float = 120) -> None:
        """Wait until what is committed now is delivered."""
        self.capture.wait_checkpoint(self.name, timeout_s=timeout_s)

    def messages(self, topic: str = "", isolation: str = "read_committed") -> list[Message]:
        """Return what the topic holds."""
        return topics.read(self.broker.bootstrap, [topic or self.schema], isolation=isolation)


def make_way(
    capture: CaptureProcess, database: Database, broker: Broker, schema: str, upstream: str
) -> Way:
    """Create the schema, and register the server unless it is."""
    database.execute(f"CREATE DATABASE {schema}")
    known = [u["name"] for u in capture.ask("GET", "/upstreams")["items"]]
    if upstream not in known:
        capture.register(upstream, database.uri())
    return Way(capture, database, broker, upstream, schema)


@pytest.fixture
def way(
    capture: CaptureProcess, mariadb: Database, broker: Broker, fresh_name: str
) -> Iterator[Way]:
    """Return a way of this test alone through the module's capture; its changefeed is removed."""
    made = make_way(capture, mariadb, broker, fresh_name, "main")
    yield made
    if capture.running:
        capture.api("DELETE", f"/changefeeds/{made.name}")


@pytest.fixture(scope="session")
def work_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for what a test writes."""
    return tmp_path_factory.mktemp("e2e")
