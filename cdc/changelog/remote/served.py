"""What the endpoint serves, by name: a path that is not of one of these forms is nothing to it."""

from __future__ import annotations

import re
from typing import NamedTuple

from cdc.base.ts import Ts
from cdc.changelog import names

_NAME = r"[a-zA-Z0-9]+(?:[-_][a-zA-Z0-9]+)*"
_ROWS = rf"(?:snapshot/{_NAME}/\d+|copied/{_NAME}/\d+-{_NAME})"
_LOG = rf"(?:0|nodes/{_NAME}|0/{_ROWS}/rows)"
_FILE = (
    rf"(?:\d{{6,}}\.(?:binlog|index)|{names.MANIFEST}|{names.TABLES}|{names.NODES}"
    rf"|{names.SCHEMA_FOLDER}/(?:\d+\.json|{names.STATEMENTS})?)"
)
_READ = re.compile(rf"(?P<upstream>{_NAME})/{_LOG}/{_FILE}\Z")
_SLOTS = re.compile(rf"(?P<upstream>{_NAME})/0/run/{_NAME}/\d+/slots(?:/(?P<number>\d+))?\Z")
_CHUNK = re.compile(rf"(?P<upstream>{_NAME})/0/{_ROWS}/chunks/\d+-\d+-\d+-\d+-[0-9a-f]{{8}}\Z")


def chunk_name(table: int, low_ts: Ts, part: int, chunk: int) -> str:
    """What a chunk's file is called, before what tells attempts apart: ``-`` and 8 hex digits.

    ``table`` and ``chunk`` are their numbers, ``part`` is that among tables that are read as one.
    """
    return f"{table}-{low_ts}-{part}-{chunk}"


class Served(NamedTuple):
    """A path that is served: whose token opens it, and the number of a slot that it names."""

    upstream: str
    number: int | None = None


def readable(path: str) -> Served | None:
    """A file of a log, or with a ``/`` at its end its folder of schemas.

    >>> readable("main/0/000001.binlog").upstream
    'main'
    >>> readable("main/0/../../token") is None
    True
    """
    return _served(_READ, path)


def slots(path: str) -> Served | None:
    """The slots of a changefeed's epoch, or one of them."""
    return _served(_SLOTS, path)


def chunk(path: str) -> Served | None:
    """A chunk of a table's rows, which a worker has read."""
    return _served(_CHUNK, path)


def _served(form: re.Pattern[str], path: str) -> Served | None:
    found = form.match(path)
    if found is None:
        return None
    number = found.groupdict().get("number")
    return Served(found["upstream"], int(number) if number else None)
