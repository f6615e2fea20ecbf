"""Sends what is documented to a server, and judges the answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import httpx
from typer.testing import CliRunner, Result

from cdc.base.errors import TidegateError
from cdc.cli.main import app
from cdc.client import ServerRefused
from tests.compat.ticdc.documented import LINES, REQUESTS, Line, Request
from tests.waiting import until

Send = Callable[[str, str, Any], httpx.Response]


class Likeness(StrEnum):
    """How an answer is to the documented one."""

    SAME = "same"
    OTHER = "other"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Replayed:
    """One call. ``why``: what differs, or the code with which it was refused."""

    name: str
    likeness: Likeness
    why: str = ""

    @property
    def row(self) -> str:
        """As Markdown."""
        return f"| `{self.name}` | {self.likeness} | {self.why} |"


def requests(send: Send, capture: str) -> Iterator[Replayed]:
    """All documented requests, in their order."""
    for one in REQUESTS:
        _wait_for_a_processor(send, one.path)
        answer = send(one.method, one.path.format(capture=capture), one.body)
        yield _judged(one, answer)


def lines(send: Send, server: str, token: str) -> Iterator[Replayed]:
    """All documented command lines, in their order."""
    for one in LINES:
        _wait_for_a_processor(send, one.words)
        words = ["cli", "--server", server, *one.words.split()]
        done = CliRunner().invoke(app, words, env={"TIDEGATE_TOKEN": token})
        yield _told(one, done)


def _wait_for_a_processor(send: Send, asked: str) -> None:
    """What is resumed is given to a processor a moment later; a list of none shows no names."""
    if "processor" in asked:
        until(lambda: send("GET", "/api/v2/processors", None).json()["items"], "it is delivered")


def _judged(asked: Request, answer: httpx.Response) -> Replayed:
    body = answer.json()
    if answer.is_success:
        missing = asked.fields - _fields(body)
        status = "" if answer.status_code == asked.status else f"status {answer.status_code}"
        return _other(asked.name, status, missing)
    code = str(body.get("error_code", ""))
    if not code.startswith("TG:") or not body.get("error_msg"):
        return Replayed(asked.name, Likeness.OTHER, f"{answer.status_code} without a code")
    if asked.status < 400:
        return Replayed(asked.name, Likeness.REFUSED, f"{answer.status_code} `{code}`")
    if answer.status_code != asked.status:
        return Replayed(
            asked.name, Likeness.OTHER, f"status {answer.status_code}, not {asked.status}"
        )
    return Replayed(asked.name, Likeness.SAME, f"`{code}`")


def _told(asked: Line, done: Result) -> Replayed:
    out, error = done.stdout, done.exception
    if isinstance(error, TidegateError | ServerRefused):
        return Replayed(asked.name, Likeness.REFUSED, f"`{error.code}`")
    if done.exit_code != 0:
        unknown = "No such command" in done.stderr or "Missing option" in done.stderr
        said = done.stderr.split("Error", 1)[-1]
        why = " ".join(re.sub("[─╭╮╰╯│]", " ", said).split())
        return Replayed(asked.name, Likeness.REFUSED if unknown else Likeness.OTHER, why)
    if asked.text and asked.text not in out:
        return Replayed(asked.name, Likeness.OTHER, f"does not print “{asked.text}”")
    missing = asked.fields - _fields(json.loads(out)) if asked.fields else frozenset()
    return _other(asked.name, "", missing)


def _other(name: str, status: str, missing: frozenset[str]) -> Replayed:
    without = f"without {', '.join(sorted(missing))}" if missing else ""
    why = ", ".join(part for part in (status, without) if part)
    return Replayed(name, Likeness.OTHER if why else Likeness.SAME, why)


def _fields(body: Any) -> frozenset[str]:
    """Names of an object, or those that each of a list's items has; inner ones with a dot."""
    if isinstance(body, dict) and "items" in body:
        body = body["items"]
    if isinstance(body, list):
        found = [_fields(item) for item in body]
        return frozenset.intersection(*found) if found else frozenset()
    if not isinstance(body, dict):
        return frozenset()
    inner = {f"{k}.{n}" for k, v in body.items() if isinstance(v, dict) for n in v}
    return frozenset(body) | inner
