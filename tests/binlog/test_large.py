"""Large events, positions past 4 GiB, and the heartbeats of real streams."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from cdc.binlog.control import Heartbeat
from cdc.binlog.errors import EventTruncated
from cdc.binlog.events import EventType
from cdc.binlog.reader import BinlogReader
from cdc.binlog.verify import verify
from cdc.binlog.writer import BinlogWriter, build_event
from tests.binlog.sample import MARIADB, MYSQL, TABLE

_DUMP = 0x12
_SIXTEEN_MIB = 1 << 24


@pytest.mark.parametrize("version", [MYSQL, MARIADB])
def test_an_event_over_16_mib(version: str, tmp_path: Path) -> None:
    """Read whole, checked whole: a flipped bit far inside is found, a cut one is named."""
    path = tmp_path / "bin.000001"
    images = b"".join(b"\0" + n.to_bytes(4, "little") for n in range(8)) * (_SIXTEEN_MIB // 40 + 9)
    with path.open("wb") as file:
        out = BinlogWriter(file, version)
        out.query("BEGIN")
        out.table_map(TABLE)
        start = out.rows(EventType.WRITE_ROWS, TABLE.table_id, 1, images)
        out.xid(1)
    report = verify(path)
    assert (report.transactions, report.events["WRITE_ROWS"]) == (1, 1)
    found = next(e for e in BinlogReader(path) if e.type is EventType.WRITE_ROWS)
    assert found.body.endswith(images)
    assert len(found.data) > _SIXTEEN_MIB
    with path.open("r+b") as file:
        file.seek(start + _SIXTEEN_MIB)
        byte = file.read(1)[0]
        file.seek(start + _SIXTEEN_MIB)
        file.write(bytes([byte ^ 4]))
    with pytest.raises(Exception, match=rf"ErrEventChecksumBad.*bin\.000001:{start}"):
        verify(path)
    with path.open("r+b") as file:
        file.truncate(start + _SIXTEEN_MIB)
    with pytest.raises(EventTruncated, match=rf"bin\.000001:{start}"):
        verify(path)


def test_offsets_past_4_gib_are_our_own(tmp_path: Path) -> None:
    """The header's 32 bits wrap there; events and errors are placed by their true offset."""
    path = tmp_path / "bin.000001"
    start = (1 << 32) - 40
    with path.open("wb") as file:
        BinlogWriter(file, MYSQL)
        file.seek(start)
        at = start
        for number in range(4):
            length = 19 + 8 + 4
            data = build_event(
                EventType.XID,
                number.to_bytes(8, "little"),
                next_position=(at + length) & 0xFFFFFFFF,
            )
            file.write(data)
            at += length
        file.write(b"\1\2\3")
    assert path.stat().st_blocks * 512 < 1 << 20
    seen: list[tuple[int, int]] = []

    def walk() -> None:
        seen.extend((e.offset, e.header.next_position) for e in BinlogReader(path, start=start))

    with pytest.raises(EventTruncated, match=rf"bin\.000001:{at}"):
        walk()
    assert seen[1:] == [(start + 31 * n, (start + 31 * (n + 1)) & 0xFFFFFFFF) for n in range(4)]
    assert seen[2][1] < seen[1][1]


def _heartbeats(connection: Any, file: str, flags: int, wanted: int) -> list[tuple[int, bytes]]:
    """(type, body without checksum) of the first heartbeats at the end of a server's binlog."""
    cursor = connection.cursor()
    cursor.execute("set @master_binlog_checksum='CRC32', @source_binlog_checksum='CRC32'")
    cursor.execute("set @mariadb_slave_capability=4")
    cursor.execute("set @master_heartbeat_period=200000000, @source_heartbeat_period=200000000")
    body = struct.pack("<IHI", 4, flags, 4712) + file.encode()
    connection._execute_command(_DUMP, body)
    found: list[tuple[int, bytes]] = []
    while len(found) < wanted:
        data = connection._read_packet().get_all_data()[1:]
        if data[4] in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2):
            assert zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little")
            found.append((data[4], data[19:-4]))
    return found


@pytest.mark.parametrize(
    ("name", "flags", "code"),
    [
        ("mariadb-10.4", 0, EventType.HEARTBEAT),
        ("mariadb-11.4", 0, EventType.HEARTBEAT),
        ("mariadb-11.8", 0, EventType.HEARTBEAT),
        ("mysql-5.6", 0, EventType.HEARTBEAT),
        ("mysql-8.0", 0, EventType.HEARTBEAT),
        ("mysql-8.0", 2, EventType.HEARTBEAT_V2),
        ("mysql-9.7", 2, EventType.HEARTBEAT_V2),
    ],
)
def test_heartbeats_of_real_streams(name: str, flags: int, code: int, database: Any) -> None:
    """Version 2 is sent to a client that asks for it; both name the file at whose end we are."""
    server = database(name)
    path = server.binlogs()[-1]
    with server.connect() as connection:
        seen = _heartbeats(connection, path.name, flags, 2)
        connection._force_close()
    for kind, body in seen:
        assert kind == code
        if code == EventType.HEARTBEAT_V2:
            assert Heartbeat.parse_v2(body) == Heartbeat(path.name, path.stat().st_size)
        else:
            assert Heartbeat.parse(body) == Heartbeat(path.name, None)
