"""The real Maxwell as Maven Central has it, of 2019: it reads a MySQL 5.7, and no newer one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers import process, programs
from tests.servers.broker import Broker
from tests.servers.database import Database
from tests.waiting import until

VERSION = "1.22.6"
SERVER = "mysql-5.7"
USER = "maxwell"
_POM = Path(__file__).with_name("maxwell.pom.xml")
# Its filters are able to run JavaScript, by an engine that Java has no more.
_ENGINE = "package jdk.nashorn.api.scripting; public class ScriptObjectMirror {}"


def config(server: Database, target: Broker, topic: str, rules: str) -> dict[str, str]:
    """Its configuration, of one topic and the filter ``rules``."""
    return {
        "host": "127.0.0.1",
        "port": str(server.port),
        "user": USER,
        "password": USER,
        "jdbc_options": "serverTimezone=UTC&useSSL=false",
        "producer": "kafka",
        "kafka.bootstrap.servers": target.bootstrap,
        "kafka_topic": topic,
        "replica_server_id": "7331",
        "filter": rules,
    }


@contextmanager
def running(server: Database, folder: Path, given: dict[str, str]) -> Iterator[Path]:
    """It streams while the context lasts; the file of its configuration. The topic must be there.

    Its user must be there, too: see :func:`grant`.
    """
    source, file, log = (
        folder / "ScriptObjectMirror.java",
        folder / "config.properties",
        folder / "log",
    )
    source.write_text(_ENGINE)
    subprocess.run(["javac", "-d", str(folder), str(source)], check=True)
    file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    java = shutil.which("java")
    assert java is not None
    main = "com.zendesk.maxwell.Maxwell"
    command = [
        java,
        "-cp",
        f"{programs.jars(f'maxwell-{VERSION}', _POM)}/*:{folder}",
        main,
        "--config",
        str(file),
    ]
    program = process.spawn(command, cwd=folder, log=log)
    try:
        until(lambda: "Binlog connected" in log.read_text(), "it streams", 30)
        yield file
    except BaseException:
        print(process.tail(log, 60))
        raise
    finally:
        program.terminate()
        process.wait_gone(program, 30, "maxwell")


def grant(server: Database) -> None:
    """Make its user."""
    server.execute(
        f"CREATE USER {USER} IDENTIFIED WITH mysql_native_password BY '{USER}'",
        f"GRANT ALL ON *.* TO {USER}",
    )
