"""A throw-away Kafka broker: one KRaft node."""

from __future__ import annotations

import base64
import hashlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

from tests.servers import install, process, tls
from tests.servers.errors import StartFailed, Unavailable

NAME = "kafka-4.1"
SASL_USER = SASL_PASSWORD = "tidegate"

# Short-lived and small: the default JVM would take a quarter of the machine and warm up slowly.
_JVM = (
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    # What cannot be shared is said in many lines.
    "-Xlog:cds*=error",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)

_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "INTERNAL",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # Messages of tests are of any time; 30 s after its start a broker deletes what is too old.
    "log.retention.ms": "-1",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "controlled.shutdown.enable": "false",
    # A broker that was killed may come back only when its old session is over (default 9 s).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "num.partitions": "1",
}


class Broker:
    """One broker process with its log; `broker` makes and ends it."""

    def __init__(
        self,
        options: Mapping[str, str],
        *,
        heap: str,
        folder: Path | str | None,
        log_folder: Path | str | None,
        sasl: bool,
        with_tls: bool,
        cluster_id: str | None = None,
        advertised: int | None = None,
        optimized: bool = False,
    ) -> None:
        self.installed = install.fetch(NAME)
        java = shutil.which("java")
        if java is None:
            raise Unavailable(NAME, "java is not installed")
        self.java = java
        self.options = dict(options)
        self.heap = heap
        # The second compiler costs more than it saves within minutes.
        self._jvm = (*_JVM, f"-XX:TieredStopAtLevel={4 if optimized else 1}")
        self.sasl = sasl
        self.cluster_id = cluster_id or new_id()
        self.advertised = advertised
        self.folder, self._ours = process.data_folder(folder, "kafka")
        self.log_folder = Path(log_folder).resolve() if log_folder else self.folder / "data"
        self._log_is_ours = log_folder is not None and self._ours
        self.log = self.folder / "server.log"
        self.tls = tls.make(self.folder / "tls") if with_tls else None
        self._ports = [process.free_port() for _ in range(3)]
        self._process: subprocess.Popen[bytes] | None = None
        self._recording: list[str] = []
        process.register(self)

    @property
    def port(self) -> int:
        """Return the port for clients."""
        return self._ports[0]

    @property
    def bootstrap(self) -> str:
        """Return ``127.0.0.1:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def internal(self) -> str:
        """Return the address of the listener that asks for no login, whatever clients need."""
        return f"127.0.0.1:{self._ports[1]}"

    @property
    def controller(self) -> str:
        """Return the address of the controllers' listener."""
        return f"127.0.0.1:{self._ports[2]}"

    @property
    def pid(self) -> int:
        """Return the process id of the running broker."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Say whether the broker process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def security_protocol(self) -> str:
        """Return the protocol of the clients' listener, as Kafka names it."""
        if self.sasl:
            return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"
        return "SSL" if self.tls else "PLAINTEXT"

    def client_settings(self) -> dict[str, object]:
        """Return what a kafka-python client of this broker needs."""
        settings: dict[str, object] = {
            "bootstrap_servers": [self.bootstrap],
            "security_protocol": self.security_protocol,
        }
        if self.tls:
            settings |= {"ssl_cafile": str(self.tls.ca)}
        if self.sasl:
            settings |= {
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": SASL_USER,
                "sasl_plain_password": SASL_PASSWORD,
            }
        return settings

    def _properties(self) -> dict[str, str]:
        client, internal, controller = self._ports
        told = self.advertised or client
        names = {"CLIENT": client, "INTERNAL": internal, "CONTROLLER": controller}
        chosen = {
            **_PROPERTIES,
            "listeners": ",".join(f"{n}://127.0.0.1:{p}" for n, p in names.items()),
            "advertised.listeners": f"CLIENT://127.0.0.1:{told},INTERNAL://127.0.0.1:{internal}",
            "listener.security.protocol.map": f"CLIENT:{self.security_protocol},"
            "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.log_folder),
        }
        if self.tls:
            store = self.folder / "tls/server-store.pem"
            store.write_text(self.tls.server_key.read_text() + self.tls.server_cert.read_text())
            chosen |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(store),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.tls.ca),
            }
        if self.sasl:
            chosen |= {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.client.plain.sasl.jaas.config": "org.apache.kafka.common.security."
                f'plain.PlainLoginModule required user_{SASL_USER}="{SASL_PASSWORD}";',
            }
        return {**chosen, **self.options}

    @property
    def _archive(self) -> Path:
        """Where the classes of this JVM and these jars are kept (class-data sharing, JEP 350)."""
        java = Path(self.java).resolve()
        digest = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()
        return self.installed.base / f"classes-{digest[:16]}.jsa"

    def _command(self, heap: str, main: str, *arguments: str) -> list[str]:
        classes = f"{self.installed.base / 'lib'}/*"
        kept = [f"-XX:SharedArchiveFile={self._archive}"] if self._archive.is_file() else []
        jvm = [*self._jvm, *(self._recording or kept)]
        return [self.java, f"-Xmx{heap}", *jvm, "-cp", classes, main, *arguments]

    def record_classes(self) -> None:
        """Keep the classes that a start loads, which are half of what it costs, for later ones."""
        if self._archive.is_file():
            return
        made = self.folder / "classes.jsa"
        self._recording = [f"-XX:ArchiveClassesAtExit={made}"]
        try:
            self.start()
            self.stop(60)
        finally:
            self._recording = []
        part = self._archive.with_suffix(f".{os.getpid()}")
        shutil.copyfile(made, part)
        part.replace(self._archive)

    def start(self) -> None:
        """Start the broker on its log (formatted first if it is new)."""
        if self.running:
            return
        for _ in range(5):
            try:
                self._start()
                return
            except StartFailed as error:
                # The other nodes of a cluster know this one by its port.
                if self._has_others or "already in use" not in str(error):
                    raise
                self._ports = [process.free_port() for _ in range(3)]
        raise StartFailed("kafka: five ports in a row were taken")

    def _start(self) -> None:
        settings = self.folder / "server.properties"
        text = "".join(f"{key}={value}\n" for key, value in self._properties().items())
        settings.write_text(text)
        if not (self.log_folder / "meta.properties").exists():
            self._format()
        self.log.unlink(missing_ok=True)
        self._process = process.spawn(
            self._command(self.heap, "kafka.Kafka", str(settings)), cwd=self.folder, log=self.log
        )
        process.wait_until(self._answers, self._process, 120, self.log, NAME)
        # Of a cluster it may be the first node, which has no others yet.
        if not self._has_others:
            self.await_ids()

    @property
    def _has_others(self) -> bool:
        """Whether it is a node of a cluster."""
        return "controller.quorum.voters" in self.options

    def _format(self) -> None:
        """Write what ``StorageTool format`` writes, without a second JVM."""
        self.log_folder.mkdir(parents=True, exist_ok=True)

        node = self._properties()["node.id"]
        (self.log_folder / "meta.properties").write_text(
            f"version=1\ncluster.id={self.cluster_id}\nnode.id={node}\ndirectory.id={new_id()}\n"
        )

    def _answers(self) -> bool:
        """Say whether the clients' listener is open: it opens when the broker serves requests."""
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def await_ids(self) -> None:
        """Wait until producers get the ids of transactions here."""
        assert self._process is not None
        process.wait_until(self._gives_ids, self._process, 120, self.log, NAME)

    def _gives_ids(self) -> bool:
        """Say whether producers get the ids of transactions: the last that it does at a start.

        On a busy machine that was half a minute later, which is all that a changefeed waits.
        """
        producer = KafkaProducer(
            bootstrap_servers=[self.internal], transactional_id="started", max_block_ms=10_000
        )
        try:
            producer.init_transactions()
        except KafkaTimeoutError:
            return False
        finally:
            producer.close(0)
        return True

    def java_tool(
        self, main: str, *arguments: str, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a class of Kafka's own tools, e.g. ``org.apache.kafka.tools.TopicCommand``."""
        return subprocess.run(
            self._command("512m", main, *arguments),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def java_command(self, main: str, *arguments: str, heap: str = "512m") -> list[str]:
        """Return the command line that `java_tool` would run."""
        return self._command(heap, main, *arguments)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the broker process (SIGSTOP, SIGCONT ...)."""
        assert self._process is not None, "the broker is not running"
        process.send(self._process.pid, number)

    def fill_disk(self, room: int, *topics: str) -> None:
        """Let no file of Kafka's own or of these topics grow by more than about ``room`` bytes.

        What the running process writes beyond fails, as on a full disk, and needs no root. It
        shuts down when that happens to its only log folder; a broker started again has room.
        """
        names = ("__", "tidegate-ledger", *topics)
        files = [f for f in self.log_folder.glob("*/*.log") if f.parent.name.startswith(names)]
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        most = max(f.stat().st_size for f in files) + room
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (most, hard))

    def kill(self) -> None:
        """End the broker as a crash does, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, seconds: float = 30) -> None:
        """Shut the broker down cleanly; its log stays until `close`."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            process.wait_gone(self._process, seconds, NAME)

    def restart(self, options: Mapping[str, str] | None = None) -> None:
        """Stop if running, and start on the same log and port, with new options if given."""
        self.stop()
        if options is not None:
            self.options = dict(options)
        self.start()

    def close(self) -> None:
        """Kill the broker and remove its log, unless the folder was the caller's."""
        if self._ours:
            self.kill()
            shutil.rmtree(self.folder, ignore_errors=True)
            if self._log_is_ours:
                shutil.rmtree(self.log_folder, ignore_errors=True)
        else:
            self.stop()


def new_id() -> str:
    """Return a random identity as Kafka writes it."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def record_classes() -> None:
    """See `Broker.record_classes`; nothing is done without Java."""
    with suppress(Unavailable):
        server = Broker({}, heap="512m", folder=None, log_folder=None, sasl=False, with_tls=False)
        try:
            server.record_classes()
        finally:
            server.close()


@contextmanager
def broker(
    options: Mapping[str, str] | None = None,
    *,
    heap: str = "512m",
    folder: Path | str | None = None,
    log_folder: Path | str | None = None,
    sasl: bool = False,
    tls: bool = False,
    advertised: int | None = None,
    optimized: bool = False,
) -> Iterator[Broker]:
    """Run a broker while the context lasts.

    ``options`` are broker properties that win over ours. ``log_folder`` puts the partitions
    elsewhere (a memory disk); ``folder`` keeps everything, so that a broker started there again
    finds it. ``advertised`` is the port that clients are sent to: a proxy's, which leads here.
    ``sasl`` asks clients for PLAIN with user and password ``tidegate``; ``tls`` gives a certificate
    for 127.0.0.1 (`Broker.tls`). Topics are not created by asking for them. ``optimized``: as fast
    as it can be, for measurements, which costs twice the processor time at its start.
    """
    server = Broker(
        options or {},
        heap=heap,
        folder=folder,
        log_folder=log_folder,
        sasl=sasl,
        with_tls=tls,
        advertised=advertised,
        optimized=optimized,
    )
    try:
        server.start()
        yield server
    finally:
        server.close()
