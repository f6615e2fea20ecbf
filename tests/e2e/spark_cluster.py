"""A Spark standalone cluster of throw-away processes, out of pyspark's own jars."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark

from tests.servers import Unavailable, process
from tests.waiting import until

_JARS = Path(pyspark.__file__).parent / "jars"
_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_OPENS = (
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)


def _not_seeing(hidden: Path) -> list[str]:
    """What a command begins with that is to find an empty folder there, which takes nothing."""
    unshare = shutil.which("unshare")
    if unshare is None:
        raise Unavailable("spark", "unshare is not installed")
    apart = [unshare, "--mount", *(["--user", "--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*apart, "true"], check=False, capture_output=True).returncode:
        raise Unavailable("spark", "mount namespaces are not allowed here")
    mount = f"mount -t tmpfs -o ro,mode=000 none {shlex.quote(str(hidden))}"
    return [*apart, "sh", "-c", f'{mount} && exec "$@"', "sh"]


class Cluster:
    """A running cluster: its ``spark://`` address, and a master that can be lost."""

    def __init__(self, port: int, start_master: Callable[[], subprocess.Popen[bytes]]) -> None:
        self.address = f"spark://127.0.0.1:{port}"
        self._start_master = start_master
        self._master = start_master()

    def lose_master(self) -> None:
        """Kill the master, and start another one at its address, which knows of nothing."""
        self._master.kill()
        self._master.wait()
        self._master = self._start_master()


@contextmanager
def cluster(workers: int, memory: str = "600m", *, hidden: Path | None = None) -> Iterator[Cluster]:
    """Run a master and workers of one core each.

    Workers and what they start do not see what the folder ``hidden`` holds.
    """
    java = shutil.which("java")
    if java is None:
        raise Unavailable("spark", "java is not installed")
    folder = Path(tempfile.mkdtemp(prefix="tidegate-spark-", dir=os.environ.get("TIDEGATE_TMP")))
    port = process.free_port()
    # Executors find our packages as the driver does, wherever their working folder is.
    env = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "SPARK_LOCAL_IP": "127.0.0.1"}
    env |= {"SPARK_HOME": str(_JARS.parent), "SPARK_SCALA_VERSION": "2.13"}
    begin = [java, *_JVM, *_OPENS, "-cp", f"{_JARS}/*"]
    started: list[subprocess.Popen[bytes]] = []

    apart = _not_seeing(hidden) if hidden else []

    def start(name: str, *words: str, before: Sequence[str] = ()) -> Path:
        log = folder / f"{name}.log"
        started.append(process.spawn([*before, *begin, *words], cwd=folder, log=log, env=env))
        return log

    def start_master() -> subprocess.Popen[bytes]:
        place = ("--host", "127.0.0.1", "--port", str(port))
        web = ("--webui-port", str(process.free_port()))
        number = len(started)
        log = start(f"master-{number}", "org.apache.spark.deploy.master.Master", *place, *web)
        until(lambda: _says(log, "I have been elected leader"), "the master runs", 60)
        return started[number]

    try:
        made = Cluster(port, start_master)
        for n in range(workers):
            words = ("--host", "127.0.0.1", "--cores", "1", "--memory", memory)
            words += ("--webui-port", str(process.free_port()), "-d", str(folder / f"work-{n}"))
            words = ("org.apache.spark.deploy.worker.Worker", *words, made.address)
            log = start(f"worker-{n}", *words, before=apart)
            until(lambda log=log: _says(log, "registered with master"), "a worker runs", 60)  # type: ignore[misc]
        yield made
    except BaseException:
        for log in sorted([*folder.glob("*.log"), *folder.glob("work-*/*/*/std*")]):
            print(f"--- {log.relative_to(folder)}\n{process.tail(log)}")
        raise
    finally:
        for one in started:
            family = psutil.Process(one.pid).children(recursive=True) if one.poll() is None else []
            one.kill()
            one.wait()
            for child in family:
                if child.is_running():
                    child.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _says(log: Path, what: str) -> bool:
    return re.search(what, log.read_text(errors="replace")) is not None if log.exists() else False
