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


def of_binlog(database: Database, schema: str = SCHEMA) -> Counter[Change]:
    """Row changes that the database has committed to schemas of that beginning, by its binlog."""
    found: Counter[Change] = Counter()
    files = database.binlogs()
    for file in files:
        command = [*database.tool("mysqlbinlog"), "-v", "--base64-output=decode-rows", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tool:
            assert tool.stdout is not None
            assert tool.stderr is not None
            found += parse(tool.stdout, schema)
            complaint = tool.stderr.read().decode(errors="replace")
        # What a crash has cut off at a file's end was not committed; the tool complains about it.
        if tool.returncode and file == files[-1]:
            raise RuntimeError(f"{command[0]} of {file}: {tool.returncode}: {complaint}")
    return found


def parse(lines: Iterable[bytes], schema: str = SCHEMA) -> Counter[Change]:
    """Changes of committed transactions in the tool's output."""
    found: Counter[Change] = Counter()
    open_ones: list[Change] = []
    kind, wanted, key = "", False, 0
    for line in lines:
        if not line.startswith(b"###"):
            kind = ""
            if line.startswith((b"COMMIT", b"ROLLBACK")):
                if line.startswith(b"COMMIT"):
                    found.update(open_ones)
                open_ones = []
        elif head := _HEAD.match(line):
            ours = head[2].decode().startswith(schema)
            kind, wanted = (_KINDS[head[1]] if ours else ""), False
        elif kind and line.rstrip() in (b"### SET", b"### WHERE"):
            wanted = line.rstrip() == _IMAGE[kind]
        elif kind and wanted and line.startswith(b"###   @1="):
            key = int(line[9:].split()[0])
        elif kind and wanted and line.startswith(b"###   @2="):
            open_ones.append((kind, key, int(line[9:].split()[0])))
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
