"""The peer: Debezium in a standalone worker of Kafka Connect, warm and then held off.

Connect's REST interface stops the connector while a load is written and resumes it; its worker
stays. The clock starts at the log line with which its reader of the binlog says that it streams.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench import peer_jars
from bench.gate import Gate
from bench.processes import cpu_seconds
from bench.topic import End
from tests.servers import process
from tests.servers.broker import Broker
from tests.servers.errors import Unavailable

VERSION = "3.5.0.Final"
_POM = Path(__file__).with_name("debezium.pom.xml")
_STREAMING = "Keepalive thread is running"
_CONNECTORS = {
    "mariadb": "io.debezium.connector.mariadb.MariaDbConnector",
    "mysql": "io.debezium.connector.mysql.MySqlConnector",
}
_JVM = (
    "-Xms1500m",
    "-Xmx4g",
    "-XX:+UseG1GC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka=warn",
)


def fetch() -> Path:
    """Return the folder of its jars, fetched by Maven if they are not in the cache."""
    return peer_jars.fetch("debezium-3.5", _POM)


class Connect:
    """One worker with one connector for ``bench.t``; topic ``<prefix>.bench.t``."""

    def __init__(self, folder: Path, broker: Broker, gate: Gate, prefix: str, codec: str) -> None:
        self.folder, self.broker, self.gate, self.prefix = folder, broker, gate, prefix
        self.topic = f"{prefix}.bench.t"
        self._codec = codec
        self._port = process.free_port()
        self._log = folder / "connect.log"
        self._url = f"http://127.0.0.1:{self._port}"
        self._name = "c"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the worker and its connector, which then streams from the end of the binlog."""
        properties = self.folder / "worker.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in self._worker().items()))
        java = shutil.which("java")
        assert java is not None
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = [java, *_JVM, "-cp", f"{fetch()}/*", main, str(properties)]
        self._process = process.spawn(command, cwd=self.folder, log=self._log)
        self._until(self._answers, 90)
        self._request("POST", "/connectors", {"name": "c", "config": self._connector()})
        self._until(lambda: self._streams() > 0, 90)

    def pause(self) -> None:
        """Stop the connector at what it has delivered; the worker and its JVM stay."""
        self._request("PUT", "/connectors/c/stop")
        self._until(self._stopped, 60)

    def resume(self) -> float:
        """Go on; returns ``time.monotonic()`` when it streams."""
        before = self._streams()
        self._request("PUT", "/connectors/c/resume")
        self._until(lambda: self._streams() > before, 90, 0.005)
        return time.monotonic()

    def copy(self, prefix: str) -> float:
        """Begin with another connector, which copies the table; ``time.monotonic()`` before."""
        self._request("DELETE", f"/connectors/{self._name}")
        config = self._connector() | {
            "topic.prefix": prefix,
            "snapshot.mode": "initial",
            "snapshot.locking.mode": "minimal",
            "snapshot.max.threads": "2",
            "snapshot.fetch.size": "10000",
            "schema.history.internal.file.filename": str(self.folder / f"history-{prefix}.dat"),
        }
        began = time.monotonic()
        # Offsets are kept by a connector's name.
        self._request("POST", "/connectors", {"name": f"c-{prefix}", "config": config})
        self._name = f"c-{prefix}"
        return began

    @property
    def pid(self) -> int:
        """The worker's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        """Processor time of the worker so far."""
        return cpu_seconds(self.pid)

    def check(self) -> None:
        """Raise if the connector has failed."""
        status = self._request("GET", f"/connectors/{self._name}/status")
        if "FAILED" in json.dumps(status):
            raise RuntimeError(f"debezium failed: {json.dumps(status)[:2000]}")

    def stop(self) -> None:
        """End the worker."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            process.wait_gone(self._process, 30, "connect")

    def _worker(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.broker.bootstrap,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": "2000",
            "offset.flush.timeout.ms": "60000",
            "listeners": self._url,
            "plugin.discovery": "only_scan",
            "connector.client.config.override.policy": "All",
            "producer.linger.ms": "50",
            "producer.batch.size": "1048576",
            "producer.buffer.memory": "134217728",
            "producer.compression.type": self._codec,
            "producer.max.request.size": "20000000",
        }

    def _connector(self) -> dict[str, str]:
        database = self.gate.database
        tls = {"database.ssl.mode": "disable"}
        if database.kind == "mysql":
            tls = {"database.ssl.mode": "preferred", "driver.allowPublicKeyRetrieval": "true"}
        return tls | {
            "connector.class": _CONNECTORS[database.kind],
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": str(database.port),
            "database.user": self.gate.user,
            "database.password": self.gate.password,
            "database.server.id": "5401",
            "topic.prefix": self.prefix,
            "database.include.list": "bench",
            "table.include.list": "bench.t",
            "snapshot.mode": "no_data",
            "include.schema.changes": "false",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(self.folder / "history.dat"),
            "schema.history.internal.store.only.captured.tables.ddl": "true",
            "max.batch.size": "8192",
            "max.queue.size": "32768",
            "poll.interval.ms": "50",
            "binlog.buffer.size": "0",
            "decimal.handling.mode": "precise",
            "bigint.unsigned.handling.mode": "precise",
            "skip.messages.without.change": "false",
            "tombstones.on.delete": "false",
        }

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        answer = httpx.request(method, self._url + path, json=body, timeout=30, trust_env=False)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def _answers(self) -> bool:
        try:
            self._request("GET", "/connectors")
        except httpx.HTTPError:
            return False
        return True

    def _stopped(self) -> bool:
        status = self._request("GET", "/connectors/c/status")
        return status["connector"]["state"] == "STOPPED" and not status["tasks"]

    def _streams(self) -> int:
        return self._log.read_text(errors="replace").count(_STREAMING)

    def _until(self, ready: Callable[[], bool], seconds: float, pause: float = 0.2) -> None:
        assert self._process is not None
        end = time.monotonic() + seconds
        while not ready():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("kafka connect:\n" + process.tail(self._log))
            time.sleep(pause)


@contextmanager
def connect(
    broker: Broker, gate: Gate, prefix: str, *, codec: str = "lz4", partitions: int = 1
) -> Iterator[Connect]:
    """A running worker; its topic exists."""
    folder, _ = process.data_folder(None, "connect")
    worker = Connect(folder, broker, gate, prefix, codec)
    End.create_topic(broker, worker.topic, partitions)
    try:
        worker.start()
        yield worker
    finally:
        worker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Fetch it ahead of tests and bench; what cannot be had fails the run in CI only."""
    try:
        print(f"debezium {VERSION}: {fetch()}")
    except Unavailable as error:
        print(error, file=sys.stderr)
        return int(os.environ.get("CI") == "true")
    return 0


if __name__ == "__main__":
    sys.exit(main())
