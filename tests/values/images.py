"""Values as a real server writes them into its binlog, next to the text that it prints for them."""

from __future__ import annotations

import struct
from typing import Any

_DUMP = 0x12
_TABLE_MAP = 19
_WRITE_ROWS = (23, 30)
_ROTATE, _FORMAT = 4, 15


def _events(connection: Any, file: str, position: int) -> list[tuple[int, bytes]]:
    """Type and body (without CRC) of the events of a binlog file from a position to its end."""
    cursor = connection.cursor()
    cursor.execute("set @master_binlog_checksum='CRC32', @source_binlog_checksum='CRC32'")
    cursor.execute("set @mariadb_slave_capability=4")
    connection._execute_command(_DUMP, struct.pack("<IHI", position, 1, 4711) + file.encode())
    found = []
    while True:
        packet = connection._read_packet()
        data = packet.get_all_data()
        if data[0] == 0xFE and len(data) < 9:
            return found
        kind = data[5]
        if kind not in (_ROTATE, _FORMAT):
            found.append((kind, data[20:-4]))


def _first_image(kind: int, body: bytes) -> bytes:
    """The row image of a WRITE_ROWS event with one row, after its NULL bitmap; one column."""
    p = 8
    if kind == 30:
        p += struct.unpack_from("<H", body, p)[0]
    assert body[p] == 1
    return body[p + 3 :]


def _metadata(body: bytes) -> tuple[int, bytes]:
    """Column type and metadata of a TABLE_MAP of one column."""
    p = 8
    for _ in range(2):
        p += 1 + body[p] + 1
    assert body[p] == 1
    length = body[p + 2]
    return body[p + 1], body[p + 3 : p + 3 + length]


def images(
    connect: Any, column: str, values: list[str], show: str = "v", setup: str = ""
) -> list[tuple[int, bytes, bytes, Any]]:
    """(type code, metadata, image of the value, what ``select show`` gives) for each SQL value.

    ``connect`` makes a new root connection to a server with a row binlog; ``column`` is the type
    of the column ``v``, not NULL. Length prefixes are part of the image.
    """
    with connect() as connection:
        cursor = connection.cursor()
        cursor.execute("set autocommit=1")
        cursor.execute("create database if not exists images")
        cursor.execute("use images")
        cursor.execute("set sql_mode='', names utf8mb4")
        if setup:
            cursor.execute(setup)
        cursor.execute("drop table if exists t")
        cursor.execute(f"create table t (v {column} not null)")
        try:
            cursor.execute("show binary log status")
        except Exception:
            cursor.execute("show master status")
        file, position = cursor.fetchone()[:2]
        shown = []
        for value in values:
            cursor.execute(f"insert into t values ({value})")
            cursor.execute(f"select {show} from t")
            shown.append(cursor.fetchone()[0])
            cursor.execute("delete from t")
    with connect() as connection:
        events = _events(connection, file, position)
    result = []
    kind, metadata = 0, b""
    for code, body in events:
        if code == _TABLE_MAP:
            kind, metadata = _metadata(body)
        elif code in _WRITE_ROWS:
            result.append((kind, metadata, _first_image(code, body), shown[len(result)]))
    assert len(result) == len(values)
    return result
