"""Our dashboards as pictures of a run: ``python -m tests.prometheus.pictures FOLDER``.

It takes two minutes. Rows are copied, changes follow them into a topic and a database, a table is
altered, the capture is killed with -9 and started again, and a changefeed is paused for a while.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import servers
from tests.api.server_process import CdcServer
from tests.prometheus.dashboards import FILES, asked
from tests.prometheus.drawing import Series, dashboard
from tests.prometheus.server import Prometheus, prometheus
from tests.prometheus.test_alerts import RULES
from tests.servers.process import free_port
from tests.soak.load_thread import LoadThread

_ROWS = 200_000
_STEP_S = 2.0
_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")


_CONFIG = """
[snapshot]
mode = "initial"
max-rows-per-second = 15000
"""


class _Load(LoadThread):
    """Some 2,000 rows a second into two tables: new ones, changed ones, and a few that go."""

    def __init__(self, upstream: servers.Database) -> None:
        super().__init__("load of the pictures")
        self._upstream = upstream

    def _run(self) -> None:
        began = time.monotonic()
        with self._upstream.connect() as connection, connection.cursor() as cursor:
            connection.autocommit(True)
            for n in range(10_000_000):
                if self._stopping.is_set():
                    return
                first = _ROWS + n * 100
                for table in ("orders", "events"):
                    values = ",".join(f"({first + i}, REPEAT('x', 100))" for i in range(100))
                    cursor.execute(f"INSERT INTO shop.{table} (id, v) VALUES {values}")
                cursor.execute(f"UPDATE shop.orders SET v = 'y' WHERE id > {first} - 50 LIMIT 20")
                cursor.execute(f"DELETE FROM shop.events WHERE id < {first} - 10000 LIMIT 20")
                self._keep_pace(began, n * 0.1)


def main() -> int:
    """Run, and write an SVG for each dashboard into the folder that is named."""
    folder = Path(sys.argv[1])
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory()))
        upstream = stack.enter_context(servers.database("mariadb-11.4"))
        target = stack.enter_context(servers.database("mysql-8.0"))
        broker = stack.enter_context(servers.broker())
        address = f"127.0.0.1:{free_port()}"
        server = CdcServer(scratch / "data", "--addr", address)
        stack.callback(server.end)
        watched = stack.enter_context(prometheus({"tidegate": [address]}, RULES))
        _prepare(upstream, target)
        begin = time.time()
        _run(server, upstream, f"kafka://{broker.bootstrap}/shop?protocol=canal-json", target)
        _draw(watched, (begin, time.time()), folder)
    return 0


def _prepare(upstream: servers.Database, target: servers.Database) -> None:
    tables = [f"CREATE TABLE shop.{t} (id INT KEY, v VARCHAR(100))" for t in ("orders", "events")]
    for database in (upstream, target):
        database.execute("CREATE DATABASE shop", *tables)
    rows = f"SELECT seq, REPEAT('a', 100) FROM seq_0_to_{_ROWS - 1}"
    upstream.execute(f"INSERT INTO orders {rows}", database="shop")


def _run(
    server: CdcServer, upstream: servers.Database, topic: str, target: servers.Database
) -> None:
    server.start()
    uri = f"{upstream.uri()}?ssl-mode=disabled"
    server.cli_json("upstream", "create", "-u", "shop", "--uri", uri)
    config = server.data_dir.with_name("changefeed.toml")
    config.write_text(_CONFIG)
    create = ("changefeed", "create", "-u", "shop", "--config", str(config))
    server.cli_json(*create, "-c", "to-topic", "--sink-uri", topic)
    into = f"{target.uri()}?ssl-mode=disabled"
    server.cli_json(*create, "-c", "to-database", "--sink-uri", into)
    load = _Load(upstream)
    load.start()
    time.sleep(30)
    upstream.execute("ALTER TABLE shop.events ADD COLUMN w INT DEFAULT 1")
    time.sleep(15)
    server.end()
    server.start()
    time.sleep(20)
    server.cli_json("changefeed", "pause", "-c", "to-database")
    time.sleep(10)
    server.cli_json("changefeed", "resume", "-c", "to-database")
    time.sleep(20)
    load.stop()


def _draw(watched: Prometheus, span: tuple[float, float], folder: Path) -> None:
    def answers(expr: str, legend: str) -> Sequence[Series]:
        found = watched.over(asked(expr, "10s"), span, _STEP_S)
        return [
            Series(_named(legend, labels), [(t, v) for t, v in samples if math.isfinite(v)])
            for labels, samples in found
        ]

    folder.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        picture = folder / f"dashboard-{file.stem}.svg"
        picture.write_text(dashboard(json.loads(file.read_text()), span, answers))
        print(picture)


def _named(legend: str, labels: dict[str, str]) -> str:
    return _LABEL.sub(lambda label: labels.get(label[1], ""), legend)


if __name__ == "__main__":
    sys.exit(main())
