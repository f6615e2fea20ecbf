"""A Spark standalone cluster of throw-away processes, out of pyspark's own jars."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark

from tests.e2e.capture_process import until
from tests.servers import Unavailable, process

_JARS = Path(pyspark.__file__).parent / "jars"
_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_OPENS = (
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)


@contextmanager
def cluster(workers: int, memory: str = "600m") -> Iterator[str]:
    """Run a master and workers of one core each; its ``spark://`` address."""
    java = shutil.which("java")
    if java is None:
        raise Unavailable("spark", "java is not installed")
    folder = Path(tempfile.mkdtemp(prefix="tidegate-spark-", dir=os.environ.get("TIDEGATE_TMP")))
    port = process.free_port()
    # Executors find our packages as the driver does, wherever their working folder is.
    env = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "SPARK_LOCAL_IP": "127.0.0.1"}
    env |= {"SPARK_HOME": str(_JARS.parent), "SPARK_SCALA_VERSION": "2.13"}
    begin = [java, *_JVM, *_OPENS, "-cp", f"{_JARS}/*"]
    started = []

    def start(name: str, *words: str) -> Path:
        log = folder / f"{name}.log"
        started.append(process.spawn([*begin, *words], cwd=folder, log=log, env=env))
        return log

    try:
        place = ("--host", "127.0.0.1", "--port", str(port))
        web = ("--webui-port", str(process.free_port()))
        master = start("master", "org.apache.spark.deploy.master.Master", *place, *web)
        address = f"spark://127.0.0.1:{port}"
        until(lambda: _says(master, "I have been elected leader"), "the master runs", 60)
        for n in range(workers):
            words = ("--host", "127.0.0.1", "--cores", "1", "--memory", memory)
            words += ("--webui-port", str(process.free_port()), "-d", str(folder / f"work-{n}"))
            log = start(f"worker-{n}", "org.apache.spark.deploy.worker.Worker", *words, address)
            until(lambda log=log: _says(log, "registered with master"), "a worker runs", 60)  # type: ignore[misc]
        yield address
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
