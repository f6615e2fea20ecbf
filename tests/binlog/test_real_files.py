"""Files of real servers: every event, against the servers' own tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.binlog.errors import EventRefused
from cdc.binlog.verify import verify
from tests.binlog import workload
from tests.binlog.sample import MARIADB, MYSQL, small
from tests.binlog.tool import compare_with_tool
from tests.servers import Database

SERVERS = (
    "mariadb-10.4", "mariadb-10.11", "mariadb-11.4", "mariadb-11.8",
    "mysql-5.6", "mysql-5.7", "mysql-8.0", "mysql-9.7",
)  # fmt: skip
EVERYWHERE = {
    "FORMAT_DESCRIPTION", "QUERY", "TABLE_MAP", "XID", "ROTATE",
}  # fmt: skip
OF_FAMILY = {
    "mariadb": {
        "MARIADB_GTID", "MARIADB_GTID_LIST", "MARIADB_ANNOTATE_ROWS", "MARIADB_QUERY_COMPRESSED",
        "MARIADB_BINLOG_CHECKPOINT", "WRITE_ROWS_V1", "UPDATE_ROWS_V1", "DELETE_ROWS_V1",
        "MARIADB_WRITE_ROWS_COMPRESSED_V1", "MARIADB_UPDATE_ROWS_COMPRESSED_V1",
        "MARIADB_DELETE_ROWS_COMPRESSED_V1",
    },
    "mysql": {
        "GTID", "PREVIOUS_GTIDS", "ROWS_QUERY", "WRITE_ROWS", "UPDATE_ROWS", "DELETE_ROWS",
    },
}  # fmt: skip


def required(server: Database) -> set[str]:
    """Every event type that a server of this version writes under the workload."""
    found = EVERYWHERE | OF_FAMILY[server.kind]
    version = tuple(server.version)
    if server.kind == "mysql" and version >= (8, 0):
        found |= {"TRANSACTION_PAYLOAD", "XA_PREPARE"}
    if server.kind == "mysql" and version >= (8, 3):
        found |= {"GTID_TAGGED"}
    if server.kind == "mariadb" and version >= (10, 5):
        found |= {"XA_PREPARE"}
    return found


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
@pytest.mark.parametrize("name", SERVERS)
def test_every_event_where_the_tool_sees_it(
    name: str, checksum: str, database: Callable[..., Database]
) -> None:
    """All files verify, with the events that the server's own tool sees, where it sees them."""
    server = database(name)
    # The tool of MySQL 5.6 forgets to name some events.
    tool = database("mysql-8.0") if name == "mysql-5.6" else server
    server.execute(f"SET GLOBAL binlog_checksum = {checksum}", "FLUSH LOGS")
    before = len(server.binlogs())
    try:
        workload.run(server.connect, server.kind, tuple(server.version))
        paths = server.binlogs()[before - 1 : -1]
    finally:
        # The server is shared with tests that count on checksums.
        server.execute("SET GLOBAL binlog_checksum = CRC32", "FLUSH LOGS")
    seen: set[str] = set()
    for path in paths:
        report = verify(path)
        assert report.checksums is (checksum == "CRC32")
        seen |= set(report.events) | set(report.inside)
        compare_with_tool(tool, path)
    assert required(server) <= seen, required(server) - seen


@pytest.mark.parametrize("name", ["mysql-8.0", "mysql-9.7"])
def test_partial_json_is_refused_by_name(name: str, database: Callable[..., Database]) -> None:
    """The first event that we refuse is named, with its file and offset."""
    server = database(name)
    workload.run(server.connect, server.kind, tuple(server.version))
    before = len(server.binlogs())
    workload.partial_json(server.connect)
    with pytest.raises(EventRefused, match=r"PARTIAL_UPDATE_ROWS.*\d{6}:\d+"):
        verify(server.binlogs()[before])


@pytest.mark.parametrize("crc32", [True, False])
@pytest.mark.parametrize(("name", "version"), [("mysql-8.0", MYSQL), ("mariadb-11.8", MARIADB)])
def test_the_tools_read_what_we_write(
    name: str, version: str, crc32: bool, database: Callable[..., Database], tmp_path: Path
) -> None:
    """Without a complaint, and every event of it."""
    path = tmp_path / "bin.000001"
    path.write_bytes(small(version, crc32=crc32))
    compare_with_tool(database(name), path)
