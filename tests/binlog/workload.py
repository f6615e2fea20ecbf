"""Statements that make a real server write every kind of event that it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Connect = Callable[..., Any]

TABLES = [
    "CREATE TABLE w.orders (id INT UNSIGNED NOT NULL, name VARCHAR(40) CHARACTER SET latin1,"
    " y YEAR, big BIGINT UNSIGNED, price DECIMAL(12,3), kind ENUM('a','b''c','ü'),"
    " tags SET('x','y','z'),"
    " b BIT(11), at DATETIME(3), seen TIMESTAMP(6) NULL, t TIME(2), body TEXT, raw BLOB, d DOUBLE,"
    " f FLOAT, c CHAR(200), small SMALLINT, g GEOMETRY, PRIMARY KEY (id), KEY n (name))"
    " DEFAULT CHARSET utf8mb4",
    "CREATE TABLE w.prefixed (a VARCHAR(100), b INT, c TEXT, PRIMARY KEY (b, a(10)))"
    " DEFAULT CHARSET utf8mb4",
]
ROW = (
    "({id}, 'caf\u00e9', 2026, 18446744073709551615, -12.345, 'b''c', 'x,z', b'10110011101',"
    " '2026-11-20 01:02:03.456', '2026-11-20 01:02:03.456789', '-12:13:14.25', 'text', x'00ff',"
    " 1.5, 2.5, 'c', -7, ST_GeomFromText('POINT(1 2)'))"
)


def run(connect: Connect, kind: str, version: tuple[int, ...]) -> None:
    """Run the workload; ``connect`` gives a new autocommit connection as root."""
    with connect() as connection, connection.cursor() as cursor:

        def do(*statements: str) -> None:
            for statement in statements:
                cursor.execute(statement)

        do("DROP DATABASE IF EXISTS w", "CREATE DATABASE w", *TABLES)
        do("SET time_zone = '+03:00'", "SET sql_mode = ''", "SET auto_increment_increment = 5")
        _rows(do)
        _xa(connect, do)
        if kind == "mariadb" or version >= (8, 0):
            do("CREATE TABLE w.copy AS SELECT id, name FROM w.orders")
        do("CREATE TABLE w.m (id INT PRIMARY KEY) ENGINE = MyISAM", "INSERT INTO w.m VALUES (1)")
        do("SET NAMES latin1", "CREATE TABLE w.`t\u00e4ble` (`cölumn` INT)", "SET NAMES utf8mb4")
        do("CREATE USER someone@localhost", "DROP USER someone@localhost")
        if kind == "mariadb":
            _mariadb(do, version)
        else:
            _mysql(do, version)
        do("ALTER TABLE w.orders ADD COLUMN extra INT DEFAULT 3", "FLUSH LOGS")


def _rows(do: Callable[..., None]) -> None:
    do("INSERT INTO w.orders VALUES " + ",".join(ROW.format(id=i) for i in range(1, 4)))
    do("INSERT INTO w.orders (id) VALUES (10)", "UPDATE w.orders SET price = 3 WHERE id < 3")
    do("DELETE FROM w.orders WHERE id = 3", "INSERT INTO w.prefixed VALUES ('a', 1, 'c')")
    do("BEGIN", "INSERT INTO w.prefixed VALUES ('b', 2, 'd')", "SAVEPOINT s")
    do("INSERT INTO w.orders (id) VALUES (11)", "ROLLBACK TO s", "DELETE FROM w.prefixed", "COMMIT")
    do("SET binlog_row_image = 'MINIMAL'", "UPDATE w.orders SET price = 4 WHERE id = 1")
    do("DELETE FROM w.orders WHERE id = 10", "SET binlog_row_image = 'FULL'")
    do("INSERT INTO w.orders (id, body) VALUES (20, REPEAT('long ', 100000))")


def _xa(connect: Connect, do: Callable[..., None]) -> None:
    for end in ("COMMIT", "ROLLBACK"):
        do(
            "XA START 'branch\\0x', 'q', 77",
            f"INSERT INTO w.prefixed VALUES ('{end}', 5, '')",
            "XA END 'branch\\0x', 'q', 77",
            "XA PREPARE 'branch\\0x', 'q', 77",
            f"XA {end} 'branch\\0x', 'q', 77",
        )
    do("XA START 'one'", "INSERT INTO w.prefixed VALUES ('one', 6, '')", "XA END 'one'")
    do("XA COMMIT 'one' ONE PHASE")


def _mariadb(do: Callable[..., None], version: tuple[int, ...]) -> None:
    do("SET GLOBAL log_bin_compress = 1", "SET GLOBAL log_bin_compress_min_len = 10")
    do("CREATE TABLE w.squeezed (id INT PRIMARY KEY, body TEXT) COMMENT 'a comment to be squeezed'")
    do("INSERT INTO w.squeezed VALUES (1, REPEAT('x', 5000)), (2, REPEAT('y', 5000))")
    do("UPDATE w.squeezed SET body = REPEAT('z', 70000)", "DELETE FROM w.squeezed")
    do("SET GLOBAL log_bin_compress = 0", "SET gtid_domain_id = 7")
    do("INSERT INTO w.orders (id) VALUES (30)", "SET gtid_domain_id = 0")
    do("CREATE SEQUENCE w.s", "SELECT NEXTVAL(w.s)")
    if version >= (10, 7):
        do("CREATE TABLE w.kinds (u UUID, i INET6, n INT UNSIGNED, e ENUM('p') CHARSET latin1)")
        do("INSERT INTO w.kinds VALUES (UUID(), '::1', 4, 'p')")
    if version >= (10, 8):
        do("SET SESSION binlog_alter_two_phase = 1", "ALTER TABLE w.squeezed ADD COLUMN z INT")


def _mysql(do: Callable[..., None], version: tuple[int, ...]) -> None:
    do("SET binlog_rows_query_log_events = 1", "INSERT INTO w.orders (id) VALUES (30)")
    if version < (8, 0):
        return
    do("SET binlog_transaction_compression = 1", "BEGIN")
    do("INSERT INTO w.orders (id, body) VALUES (40, REPEAT('x', 300000))")
    do("INSERT INTO w.prefixed SELECT id, id, body FROM w.orders", "COMMIT")
    do("SET binlog_transaction_compression = 0")
    do("CREATE TABLE w.hidden (id INT PRIMARY KEY, s INT UNSIGNED INVISIBLE, j JSON)")
    do("INSERT INTO w.hidden (id, s, j) VALUES (1, 2, '{\"a\": [1, 2, null]}')")
    if version >= (8, 4):
        do("CREATE TABLE w.vectors (id INT PRIMARY KEY, v VECTOR(3))")
        do("INSERT INTO w.vectors VALUES (1, STRING_TO_VECTOR('[1,2,3]'))")
        do("SET gtid_next = 'AUTOMATIC:feed_x'", "INSERT INTO w.orders (id) VALUES (50)")
        do("SET gtid_next = 'AUTOMATIC'")


def partial_json(connect: Connect) -> None:
    """A partial JSON update (MySQL 8.0+), in a file of its own."""
    with connect() as connection, connection.cursor() as cursor:
        for statement in (
            "FLUSH LOGS",
            "SET binlog_row_value_options = 'PARTIAL_JSON'",
            "UPDATE w.hidden SET j = JSON_SET(j, '$.a[0]', 9)",
            "FLUSH LOGS",
        ):
            cursor.execute(statement)
