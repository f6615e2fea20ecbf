"""docs/ticdc.md shows what TiCDC's documented calls come to; none differs without a word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.server_process import CdcServer
from tests.compat.ticdc import replay
from tests.compat.ticdc.__main__ import served, shown, table
from tests.compat.ticdc.documented import LINES, REQUESTS, Line, Request
from tests.compat.ticdc.replay import Likeness


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdcServer]:
    with served(tmp_path_factory.mktemp("ticdc")) as made:
        yield made


def test_the_page_shows_what_each_documented_call_comes_to(server: CdcServer) -> None:
    assert table(server) == shown(), "python -m tests.compat.ticdc --write writes it anew"
    rows = shown().splitlines()[2:]
    assert len(rows) == len(REQUESTS) + len(LINES)
    for row in rows:
        name, likeness, why = (cell.strip() for cell in row[1:-1].rsplit("|", 2))
        assert name
        # What is not the same says in what, or by which code it was refused.
        assert likeness == Likeness.SAME or why, row


def test_a_difference_is_seen() -> None:
    """The control: fields that are missing, statuses, and refusals without a code."""
    asked = Request("GET", "/x", None, frozenset({"a", "b.c"}))

    def judged(status: int, body: object, one: Request = asked) -> replay.Replayed:
        return replay._judged(one, httpx.Response(status, json=body))

    assert judged(200, {"a": 1, "b": {"c": 2}, "d": 3}).likeness is Likeness.SAME
    assert judged(200, {"items": [{"a": 1, "b": {"c": 2}}, {"a": 1}]}).why == "without b.c"
    assert judged(200, {"items": []}).likeness is Likeness.OTHER
    assert judged(202, {"a": 1, "b": {"c": 2}}).why == "status 202"
    refused = {"error_code": "TG:ErrX", "error_msg": "x"}
    assert judged(400, refused).likeness is Likeness.REFUSED
    assert judged(500, {}).why == "500 without a code"
    wrong = Request("GET", "/x", status=400)
    assert judged(400, refused, wrong).likeness is Likeness.SAME
    assert judged(404, refused, wrong).why == "status 404, not 400"
    assert judged(200, {}, wrong).why == "status 200"


def test_a_command_that_ends_otherwise_is_seen(tmp_path: Path) -> None:
    done = replay.CliRunner().invoke(replay.app, ["cli", "unsafe", "reset"])
    assert replay._told(Line("unsafe"), done).likeness is Likeness.REFUSED
    done = replay.CliRunner().invoke(
        replay.app, ["cli", "tso", "query", "--server", "http://127.0.0.1:9"]
    )
    assert replay._told(Line("tso query"), done).why == "`TG:ErrServerUnreachable`"
    done = replay.CliRunner().invoke(replay.app, ["cdc", "--none"])
    assert replay._told(Line("x"), done).likeness is not Likeness.SAME
