"""The peer of a copy: Flink CDC's incremental snapshot, in a Flink of its own, from SQL to Kafka.

One JVM is job manager and two slots of a task manager; a job for each copy, so that later ones find
it warm. Its rows are written as Flink's ``canal-json``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import peer_jars
from bench.gate import Gate
from tests.servers import process
from tests.servers.broker import Broker

VERSION = "3.5.0"
_POM = Path(__file__).with_name("flink_cdc.pom.xml")
_RUNNER = Path(__file__).with_name("FlinkCdc.java")
_JVM = (
    "-Xms1500m",
    "-Xmx1500m",
    "-XX:+UseG1GC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    *(f"--add-opens=java.base/java.{p}=ALL-UNNAMED" for p in ("lang", "util", "time")),
)
_SETTINGS = (
    "parallelism.default=2",
    "taskmanager.numberOfTaskSlots=2",
    "execution.checkpointing.interval=3s",
    "table.local-time-zone=UTC",
)
_COLUMNS = (
    "id BIGINT, k INT, big DECIMAL(20, 0), amount DECIMAL(14, 2), ratio DOUBLE, name STRING,"
    " note STRING, flag BOOLEAN, created TIMESTAMP(3), ts TIMESTAMP_LTZ(6)"
)


class FlinkCdc:
    """One JVM that copies ``bench.t``, as often as it is told to."""

    def __init__(self, folder: Path, broker: Broker, gate: Gate, codec: str) -> None:
        self._folder, self._broker, self._gate, self._codec = folder, broker, gate, codec
        self._log = folder / "flink.log"
        self._said = 0
        self._copies = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and tell it of the table."""
        java = shutil.which("java")
        assert java is not None
        pipe = self._folder / "statements"
        os.mkfifo(pipe)
        jars = peer_jars.fetch("flink-cdc-3.5", _POM)
        command = [java, *_JVM, "-cp", f"{jars}/*", str(_RUNNER), str(pipe), *_SETTINGS]
        self._process = process.spawn(command, cwd=self._folder, log=self._log)
        # Both ends, so that neither waits for the other to open it.
        self._pipe = os.open(pipe, os.O_RDWR)
        database = self._gate.database
        source = {
            "connector": "mysql-cdc",
            "hostname": "127.0.0.1",
            "port": str(database.port),
            "username": self._gate.user,
            "password": self._gate.password,
            "database-name": "bench",
            "table-name": "t",
            "server-id": "5501-5504",
            "server-time-zone": "UTC",
            "scan.incremental.snapshot.chunk.size": "50000",
            "scan.snapshot.fetch.size": "10000",
        }
        key = ", PRIMARY KEY (id) NOT ENFORCED"
        self._run(f"CREATE TABLE t ({_COLUMNS}{key}) WITH ({_options(source)})")

    def copy(self, topic: str) -> float:
        """Copy the table anew into a topic, which is there; ``time.monotonic()`` before.

        The copy before is ended, which follows the binlog by then.
        """
        if self._copies:
            self._run("CANCEL")
        self._copies += 1
        sink = {
            "connector": "kafka",
            "topic": topic,
            "format": "canal-json",
            "sink.delivery-guarantee": "at-least-once",
            "properties.bootstrap.servers": self._broker.bootstrap,
            "properties.compression.type": self._codec,
            "properties.linger.ms": "50",
            "properties.batch.size": "1048576",
            "properties.buffer.memory": "134217728",
        }
        name = f"copy_{self._copies}"
        self._run(f"CREATE TABLE {name} ({_COLUMNS}) WITH ({_options(sink)})")
        began = time.monotonic()
        self._run(f"INSERT INTO {name} SELECT * FROM t")
        return began

    def check(self) -> None:
        """Raise if it has ended."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError("flink:\n" + process.tail(self._log))

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            os.close(self._pipe)
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGKILL)
                process.wait_gone(self._process, 30, "flink")

    def _run(self, statement: str, timeout_s: float = 120.0) -> None:
        assert self._process is not None
        os.write(self._pipe, f"{statement}\n".encode())
        self._said += 1
        process.wait_until(self._done, self._process, timeout_s, self._log, "flink")

    def _done(self) -> bool:
        return self._log.read_text(errors="replace").count("done\n") >= self._said


def _options(options: dict[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


@contextmanager
def flink(broker: Broker, gate: Gate, *, codec: str = "lz4") -> Iterator[FlinkCdc]:
    """One that runs."""
    folder, _ = process.data_folder(None, "flink")
    one = FlinkCdc(folder, broker, gate, codec)
    try:
        one.start()
        yield one
    finally:
        one.stop()
        shutil.rmtree(folder, ignore_errors=True)
