"""Row changes that a target has committed, as its own binlog says through its own tool.

Rows that are equal at the end do not show that a change came twice on the way. The target's binlog
does: it has each row change of each committed transaction, and ``mysqlbinlog -v`` prints it. Of
each row only ``ver`` is looked at, the number that no other change of its table has. MySQL's tool
gives a row up where a POINT stands in it, and says so in its place: then nothing is read at all, as
what would be missing looks like what was lost.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.seen import Seen
from bench.workload_tables import Table
from tests.servers.database import Database

_HEADS = {b"INSERT INTO": False, b"UPDATE": False, b"DELETE FROM": True}
# What ends a transaction in the tool's output, and whether it holds.
_ENDS = ((b"COMMIT", True), (b"ROLLBACK", False))
_GIVEN_UP = b"=!! Don't know how to handle column"

Change = tuple[str, int, bool]
"""Table, number, whether it is a DELETE."""


class Applied:
    """Numbers of all changes in the target's binlog, and those that are there twice."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.changes = 0
        self.duplicated: list[str] = []

    def add(self, changes: Iterable[Change]) -> None:
        """Count changes of a committed transaction."""
        for table, version, deleted in changes:
            self.changes += 1
            if not self.seen.first_time(table, version, deleted=deleted):
                kind = "DELETE" if deleted else "change"
                self.duplicated.append(f"{table} {kind} ver {version}")


def applied(database: Database, schema: str, tables: Iterable[Table]) -> Applied:
    """Read all binlogs that the server has. Raises RuntimeError if its tool cannot."""
    place = {
        f"`{schema}`.`{t.name}`".encode(): (t.name, b"###   @%d=" % _number(t)) for t in tables
    }
    found = Applied()
    files = database.binlogs()
    for file in files:
        # What a crash has cut off at a file's end was not committed; the tool complains about it.
        for changes in _transactions(database, schema, file, place, strict=file == files[-1]):
            found.add(changes)
    return found


def _number(table: Table) -> int:
    return [c.name for c in table.columns].index("ver") + 1


def _transactions(
    database: Database,
    schema: str,
    file: Path,
    place: dict[bytes, tuple[str, bytes]],
    *,
    strict: bool,
) -> Iterator[list[Change]]:
    command = [*database.tool("mysqlbinlog"), "-v", "--base64-output=decode-rows"]
    command += [f"--database={schema}", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tool:
        assert tool.stdout is not None
        assert tool.stderr is not None
        yield from parse(tool.stdout, place)
        complaint = tool.stderr.read().decode(errors="replace")
    if tool.returncode and strict:
        raise RuntimeError(f"{command[0]} of {file}: {complaint}")


def parse(lines: Iterable[bytes], place: dict[bytes, tuple[str, bytes]]) -> Iterator[list[Change]]:
    """Changes of each committed transaction in the tool's output.

    ``place``: by `` `schema`.`table` `` the table's name, and how its line of ``ver`` begins.
    """
    changes: list[Change] = []
    name, mark, deleted, wanted = "", b"", False, False
    for line in lines:
        if not line.startswith(b"###"):
            for word, committed in _ENDS:
                if line.startswith(word):
                    if committed and changes:
                        yield changes
                    changes = []
        elif name and _GIVEN_UP in line:
            raise RuntimeError(f"the tool gave a row of {name} up: {line[:200]!r}")
        elif line.startswith(b"###   @"):
            if wanted and line.startswith(mark):
                number = line[len(mark) :].split(None, 1)[0]
                changes.append((name, int(number), deleted))
                wanted = False
        elif line.startswith(b"### SET"):
            wanted = not deleted and bool(name)
        elif line.startswith(b"### WHERE"):
            wanted = deleted and bool(name)
        else:
            head, _, table = line[4:].rstrip().rpartition(b" ")
            if head in _HEADS:
                name, mark = place.get(table, ("", b""))
                deleted = _HEADS[head]
