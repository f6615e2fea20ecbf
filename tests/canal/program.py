"""The real Canal as Maven Central has it, of 2019: it reads a MySQL 5.7, and no newer one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e import jvm
from tests.servers import programs
from tests.servers.database import Database

VERSION = "1.1.4"
SERVER = "mysql-5.7"
USER = "canal"
_POM = Path(__file__).with_name("canal.pom.xml")
_RUNNER = Path(__file__).with_name("RealCanal.java")


def grant(server: Database) -> None:
    """Make its user."""
    server.execute(
        f"CREATE USER {USER} IDENTIFIED WITH mysql_native_password BY '{USER}'",
        f"GRANT ALL ON *.* TO {USER}",
    )


def messages(server: Database, place: tuple[str, int], tables: str, last: str) -> list[Any]:
    """What it would send to Kafka from ``place`` on, up to the first change of the table ``last``.

    ``tables`` is ``canal.instance.filter.regex``.
    """
    file, at = place
    words = (str(server.port), USER, file, str(at), tables, last)
    command = jvm.java(programs.jars(f"canal-{VERSION}", _POM), str(_RUNNER), *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    # Its log is among what it prints.
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
