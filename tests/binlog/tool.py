"""What a server's own tool says about a binlog file: where each event ends, and its type."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from cdc.binlog.events import ROWS_V1, EventType
from cdc.binlog.reader import BinlogReader
from tests.servers import Database

_T = EventType
_EVENT = re.compile(
    rb"^#\d{6} +\d+:\d\d:\d\d server id \d+  end_log_pos (\d+)(?: CRC32 (0x[0-9a-f]+))?\s+(\w+)",
    re.M,
)
# The first word that the tools print for a type, where it is not the name in lower case.
_WORDS: dict[EventType, str] = {
    _T.FORMAT_DESCRIPTION: "Start",
    _T.PREVIOUS_GTIDS: "Previous",
    _T.GTID: "GTID",
    _T.GTID_TAGGED: "GTID",
    _T.ANONYMOUS_GTID: "Anonymous_GTID",
    _T.XA_PREPARE: "XA",
    _T.WRITE_ROWS_V1: "Write_rows",
    _T.UPDATE_ROWS_V1: "Update_rows",
    _T.DELETE_ROWS_V1: "Delete_rows",
    _T.TRANSACTION_PAYLOAD: "Transaction_Payload",
    _T.MARIADB_GTID: "GTID",
    _T.MARIADB_GTID_LIST: "Gtid",
    _T.MARIADB_BINLOG_CHECKPOINT: "Binlog",
    _T.MARIADB_ANNOTATE_ROWS: "Annotate_rows",
    _T.MARIADB_QUERY_COMPRESSED: "Query_compressed",
    _T.MARIADB_WRITE_ROWS_COMPRESSED_V1: "Write_compressed_rows",
    _T.MARIADB_UPDATE_ROWS_COMPRESSED_V1: "Update_compressed_rows",
    _T.MARIADB_DELETE_ROWS_COMPRESSED_V1: "Delete_compressed_rows",
}


Seen = tuple[int, int, str]


def seen_by_tool(server: Database, path: Path) -> tuple[set[int], set[Seen]]:
    """Offsets, and (next position, checksum, word for the type) of all that the tool prints.

    It must not complain.
    """
    run = subprocess.run(
        [*server.tool("mysqlbinlog"), "--base64-output=decode-rows", "-vv",
         "--verify-binlog-checksum", str(path)],
        capture_output=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    assert not re.search(rb"ERROR|error:", run.stderr), run.stderr.decode()[-2000:]
    found = _EVENT.findall(run.stdout)
    return (
        {int(n) for n in re.findall(rb"^# at (\d+)$", run.stdout, re.M)},
        {(int(end), int(crc or b"0", 16), word.decode()) for end, crc, word in found},
    )


def compare_with_tool(server: Database, path: Path) -> None:
    """Every event is where the tool sees it, of the type that it names, and no other is there."""
    offsets, ours, containers = set(), set(), {0}
    reader = BinlogReader(path)
    for event in reader:
        offsets.add(event.offset)
        word = _WORDS.get(event.type, event.kind.name.capitalize())
        if event.type is _T.XA_PREPARE and server.kind == "mariadb":
            word = "XID"
        if event.type in ROWS_V1 and server.kind == "mysql":
            word += "_v1"
        end = event.header.next_position
        if event.type is _T.TRANSACTION_PAYLOAD:
            containers.add(end)
        # FORMAT_DESCRIPTION has a checksum even where the tool says that there is none.
        crc = int.from_bytes(event.data[-4:], "little") if reader.format.trailer else 0
        ours.add((end, crc, word))
    theirs_at, theirs = seen_by_tool(server, path)
    assert theirs_at == offsets
    assert ours <= theirs, ours - theirs
    # What comes out of a compressed transaction is printed with its end, or with none.
    assert {end for end, _, _ in theirs - ours} <= containers, theirs - ours
