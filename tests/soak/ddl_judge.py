"""Which changes of rows a topic and a database have, each by what stands in it."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable

from bench.fold import Verdict
from tests.e2e.topics import Message
from tests.servers.database import Database
from tests.soak.ddl_load import DELETE, INSERT, SCHEMA, UPDATE, Change

_HEAD = re.compile(rb"### (INSERT INTO|UPDATE|DELETE FROM) `(\w+)`\.")
_KINDS = {b"INSERT INTO": INSERT, b"UPDATE": UPDATE, b"DELETE FROM": DELETE}
# The image that counts: an UPDATE's new one.
_IMAGE = {INSERT: b"### SET", UPDATE: b"### SET", DELETE: b"### WHERE"}
_SHOWN = 5


def of_topic(messages: Iterable[Message]) -> Counter[Change]:
    """Row changes of canal-json messages."""
    found: Counter[Change] = Counter()
    for message in messages:
        body = message.body
        if body["type"] in _IMAGE and not body["isDdl"]:
            for row in body["data"]:
                found[body["type"], int(row["id"]), int(row["n"])] += 1
    return found


def of_binlog(database: Database) -> Counter[Change]:
    """Row changes that the database has committed to tables of ours, by its own binlog."""
    found: Counter[Change] = Counter()
    for file in database.binlogs():
        command = [*database.tool("mysqlbinlog"), "-v", "--base64-output=decode-rows", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as tool:
            assert tool.stdout is not None
            found += parse(tool.stdout)
        if tool.returncode:
            raise RuntimeError(f"{command[0]} of {file}: {tool.returncode}")
    return found


def parse(lines: Iterable[bytes]) -> Counter[Change]:
    """Changes in the tool's output."""
    found: Counter[Change] = Counter()
    kind, wanted, key = "", False, 0
    for line in lines:
        if not line.startswith(b"###"):
            kind = ""
        elif head := _HEAD.match(line):
            ours = head[2].decode().startswith(SCHEMA)
            kind, wanted = (_KINDS[head[1]] if ours else ""), False
        elif kind and line.rstrip() in (b"### SET", b"### WHERE"):
            wanted = line.rstrip() == _IMAGE[kind]
        elif kind and wanted and line.startswith(b"###   @1="):
            key = int(line[9:].split()[0])
        elif kind and wanted and line.startswith(b"###   @2="):
            found[kind, key, int(line[9:].split()[0])] += 1
    return found


def verdict(made: Counter[Change], seen: dict[str, Counter[Change]]) -> Verdict:
    """What is missing, twice, or was never made, over all places."""
    lost = duplicated = unknown = 0
    examples = []
    for place, found in seen.items():
        missing, more = made - found, found - made
        lost += missing.total()
        duplicated += sum(count for change, count in more.items() if change in made)
        unknown += sum(count for change, count in more.items() if change not in made)
        examples += [f"{place}: lost {c}" for c in list(missing)[:_SHOWN]]
        examples += [f"{place}: too often {c}" for c in list(more)[:_SHOWN]]
    return Verdict([], lost, duplicated, 0, unknown, examples)
