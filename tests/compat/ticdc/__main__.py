"""``python -m tests.compat.ticdc``: replay all at a server and an upstream of its own; a table."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.api.server_process import CdcServer, without_spark
from tests.compat.ticdc import replay
from tests.servers.database import database

PAGE = Path(__file__).parents[3] / "docs/ticdc.md"
BEGIN, END = "<!-- replayed -->", "<!-- end of replayed -->"


@contextmanager
def served(folder: Path) -> Iterator[CdcServer]:
    """A server with an upstream ``main`` of its own: a changefeed without rules reads all of it."""
    with database("mysql-8.0") as upstream, without_spark(folder) as server:
        upstream.execute("CREATE DATABASE test", "CREATE TABLE test.worker (id INT KEY)")
        answer = server.api("POST", "/upstreams", {"name": "main", "uri": upstream.uri()})
        assert answer.is_success, answer.text
        yield server


def table(server: CdcServer) -> str:
    """All that is documented, replayed at a server, as Markdown."""
    capture = server.api("GET", "/status").json()["id"]

    def send(method: str, path: str, body: Any) -> httpx.Response:
        return server.send(method, path, json=body)

    found = [
        *replay.requests(send, capture),
        *replay.lines(send, server.url, server.token),
    ]
    head = ["| request, or command line | answer | |", "| --- | --- | --- |"]
    return "\n".join([*head, *(one.row for one in found)])


def shown() -> str:
    """The table that the page has."""
    return PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()


def main() -> None:
    """Print the table; with ``--write`` put it into the page."""
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        made = table(server)
    print(made)
    if "--write" in sys.argv:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
