"""A Spark standalone cluster of throw-away processes, out of pyspark's own jars."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
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


@contextmanager
def cluster(workers: int, memory: str = "600m", *, hidden: Path | None = None) -> Iterator[str]:
    """Run a master and workers of one core each; its ``spark://`` address.

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
    started = []

    apart = _not_seeing(hidden) if hidden else []

    def start(name: str, *words: str, before: Sequence[str] = ()) -> Path:
        log = folder / f"{name}.log"
        started.append(process.spawn([*before, *begin, *words], cwd=folder, log=log, env=env))
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
            words = ("org.apache.spark.deploy.worker.Worker", *words, address)
            log = start(f"worker-{n}", *words, before=apart)
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
