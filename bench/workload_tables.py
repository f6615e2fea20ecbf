"""Tables of the mixed workload: how they are made, filled, and shown by the server itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

NUMBERS = "load_numbers.numbers"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _bytes(value: Any) -> str:
    # canal-json shows bytes as the characters of ISO 8859-1.
    return bytes.fromhex(_text(value)).decode("latin-1")


def _double(value: Any) -> str:
    return np.format_float_positional(np.float64(value), trim="-")


def _float(value: Any) -> str:
    return np.format_float_positional(np.float32(value), trim="-")


def _integer(value: Any) -> str:
    return str(int(Decimal(_text(value))))


@dataclass(frozen=True)
class Show:
    """How the server is asked for a value, and how its answer becomes canal-json's text."""

    select: str
    text: Callable[[Any], str]


PLAIN = Show("CAST({c} AS CHAR)", _text)
TEXT = Show("CONVERT({c} USING utf8mb4)", _text)
BYTES = Show("HEX({c})", _bytes)
NUMBER = Show("CAST({c} + 0 AS CHAR)", _integer)
DOUBLE = Show("{c}", _double)
FLOAT = Show("CAST({c} AS DOUBLE)", _float)


@dataclass(frozen=True)
class Column:
    """A column: its type, how it is shown, and for ``all_types`` its value over ``{n}``."""

    name: str
    type: str
    show: Show
    value: str = ""

    @property
    def select(self) -> str:
        """The expression that shows it."""
        return self.show.select.format(c=f"`{self.name}`")


@dataclass(frozen=True)
class Table:
    """A table of the workload; ``key`` identifies its rows."""

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    indexes: str

    @property
    def ddl(self) -> str:
        """Its CREATE TABLE."""
        columns = ", ".join(f"`{c.name}` {c.type}" for c in self.columns)
        return f"CREATE TABLE {self.name} ({columns}, {self.indexes}) ENGINE=InnoDB"

    @property
    def filled(self) -> tuple[Column, ...]:
        """Columns with a value expression."""
        return tuple(c for c in self.columns if c.value)


_END = (
    Column("note", "VARCHAR(30)", TEXT),
    Column("ver", "BIGINT NOT NULL", PLAIN),
    Column("at_us", "BIGINT NOT NULL", PLAIN),
)


def _shop() -> tuple[Table, ...]:
    return (
        Table(
            "customers",
            ("id",),
            (
                Column("id", "BIGINT NOT NULL", PLAIN),
                Column("name", "VARCHAR(60) NOT NULL", TEXT),
                Column("balance", "DECIMAL(14,2) NOT NULL", PLAIN),
                *_END,
            ),
            "PRIMARY KEY (id)",
        ),
        Table(
            "orders",
            ("id",),
            (
                Column("id", "BIGINT NOT NULL", PLAIN),
                Column("customer_id", "BIGINT NOT NULL", PLAIN),
                # canal-json has the number of an ENUM's member.
                Column("status", "ENUM('new','paid','sent','back') NOT NULL", NUMBER),
                Column("total", "DECIMAL(12,2) NOT NULL", PLAIN),
                Column("placed", "DATETIME(6) NOT NULL", PLAIN),
                *_END,
            ),
            "PRIMARY KEY (id)",
        ),
        Table(
            "order_lines",
            ("order_id", "line"),
            (
                Column("order_id", "BIGINT NOT NULL", PLAIN),
                Column("line", "SMALLINT NOT NULL", PLAIN),
                Column("sku", "VARCHAR(40) NOT NULL", TEXT),
                Column("quantity", "INT NOT NULL", PLAIN),
                *_END,
            ),
            "PRIMARY KEY (order_id, line)",
        ),
        # No primary key: rows are identified by a not-null unique key, whose values change.
        Table(
            "tags",
            ("tag",),
            (
                Column("tag", "VARCHAR(40) NOT NULL", TEXT),
                Column("num", "BIGINT NOT NULL", PLAIN),
                *_END,
            ),
            "UNIQUE KEY (tag), KEY (num)",
        ),
    )


def _integers() -> list[Column]:
    found = []
    for name, bits in (("tiny", 8), ("small", 16), ("medium", 24), ("normal", 32), ("big", 64)):
        kind = {"normal": "INT"}.get(name, name.upper() + "INT")
        half, top = 1 << (bits - 1), (1 << bits) - 1
        signed = f"ELT(1 + {{n}} MOD 4, {-half}, {half - 1}, -1, {{n}} MOD 100)"
        unsigned = f"ELT(1 + {{n}} MOD 3, {top}, {half}, {{n}} MOD 100)"
        found.append(Column(f"{name}_s", kind, PLAIN, signed))
        found.append(Column(f"{name}_u", f"{kind} UNSIGNED", PLAIN, unsigned))
    return found


def _common() -> list[Column]:
    nines = "9" * 35 + "." + "9" * 30
    words = "CONCAT('wörd “', {n}, '” \\\\ \\t <&> 😀')"
    return [
        *_integers(),
        Column("dec_20_6", "DECIMAL(20,6)", PLAIN, "({n} - 500) / 7"),
        Column("dec_65_30", "DECIMAL(65,30)", PLAIN, f"ELT(1 + {{n}} MOD 3, 0, -{nines}, 1e-30)"),
        Column("single_f", "FLOAT", FLOAT, "({n} - 50) / 7"),
        Column("double_f", "DOUBLE", DOUBLE, "ELT(1 + {n} MOD 4, {n} / 7, -1e300, 5e-324, 0.1)"),
        Column("bit_1", "BIT(1)", NUMBER, "{n} MOD 2"),
        Column("bit_64", "BIT(64)", NUMBER, "18446744073709551615 - {n}"),
        Column("a_date", "DATE", PLAIN, "ELT(1 + {n} MOD 3, '0000-00-00', '9999-12-31', "
               "DATE_ADD('2024-02-29', INTERVAL {n} DAY))"),
        Column("a_time", "TIME", PLAIN, "ELT(1 + {n} MOD 3, '-838:59:59', '00:00:00', '12:34:56')"),
        Column("a_time_4", "TIME(4)", PLAIN, "ELT(1 + {n} MOD 2, '-00:00:01.5', '11:22:33.4567')"),
        Column("a_datetime", "DATETIME", PLAIN, "DATE_ADD('1999-12-31 23:59:59', "
               "INTERVAL {n} SECOND)"),
        Column("a_datetime_6", "DATETIME(6)", PLAIN, "DATE_ADD('1999-12-31 23:59:59.123456', "
               "INTERVAL {n} SECOND)"),
        Column("a_stamp", "TIMESTAMP NULL", PLAIN, "IF({n} MOD 5, NULL, '2038-01-19 03:14:07')"),
        Column("a_stamp_3", "TIMESTAMP(3) NULL", PLAIN, "DATE_ADD('2001-02-03 04:05:06.789', "
               "INTERVAL {n} MINUTE)"),
        Column("a_year", "YEAR", PLAIN, "ELT(1 + {n} MOD 3, 0, 1901, 2155)"),
        Column("a_char", "CHAR(40)", TEXT, words),
        Column("a_varchar", "VARCHAR(300)", TEXT, f"IF({{n}} MOD 7, {words}, '')"),
        Column("a_latin1", "VARCHAR(60) CHARACTER SET latin1", TEXT, "CONCAT('ü€ ', {n})"),
        Column("a_gbk", "VARCHAR(60) CHARACTER SET gbk", TEXT, "CONCAT('中文 ', {n})"),
        Column("a_sjis", "VARCHAR(60) CHARACTER SET sjis", TEXT, "CONCAT('日本 ', {n})"),
        Column("a_utf16", "VARCHAR(60) CHARACTER SET utf16", TEXT, words),
        Column("a_tinytext", "TINYTEXT", TEXT, "REPEAT('t', {n} MOD 200)"),
        Column("a_text", "TEXT", TEXT, f"REPEAT({words}, 1 + {{n}} MOD 3)"),
        Column("a_mediumtext", "MEDIUMTEXT", TEXT, words),
        Column("a_longtext", "LONGTEXT", TEXT, f"NULLIF({words}, '')"),
        Column("a_binary", "BINARY(8)", BYTES, "UNHEX(LPAD(HEX({n} * 7919 MOD 65536), 8, 0))"),
        Column("a_varbinary", "VARBINARY(60)", BYTES, "UNHEX(SHA1({n}))"),
        Column("a_tinyblob", "TINYBLOB", BYTES, "UNHEX(MD5({n}))"),
        Column("a_blob", "BLOB", BYTES, "REPEAT(UNHEX(MD5({n})), 1 + {n} MOD 5)"),
        Column("a_longblob", "LONGBLOB", BYTES, "IF({n} MOD 2, NULL, x'00ff22')"),
        Column("an_enum", "ENUM('x','y','é')", NUMBER, "1 + {n} MOD 3"),
        Column("a_set", "SET('a','b','c')", NUMBER, "{n} MOD 8"),
        Column("a_point", "POINT", BYTES, "ST_GeomFromText(CONCAT('POINT(', {n}, ' -2.5)'))"),
        Column("always_null", "INT", PLAIN, "NULL"),
    ]  # fmt: skip


_MARIADB = (
    Column("a_json", "JSON", TEXT, "JSON_OBJECT('n', {n}, 'list', JSON_ARRAY(1.5, NULL, 'é😀'))"),
    Column(
        "a_uuid", "UUID", PLAIN, "CONCAT('123e4567-e89b-12d3-a456-', LPAD({n} MOD 1000, 12, 0))"
    ),
    Column("an_inet6", "INET6", PLAIN, "CONCAT('2001:db8::', HEX(1 + {n} MOD 60000))"),
    Column("an_inet4", "INET4", PLAIN, "CONCAT('10.0.0.', {n} MOD 256)"),
)
_MYSQL = (
    Column(
        "a_json",
        "JSON",
        PLAIN,
        "JSON_OBJECT('n', {n}, 'list', JSON_ARRAY(1.5, NULL, 'é😀', CAST(12.3 AS DECIMAL(4,2))))",
    ),
)


_OWN = {"mariadb": _MARIADB, "mysql": _MYSQL, "both": ()}


def tables(family: str, without: tuple[str, ...] = ()) -> tuple[Table, ...]:
    """All tables; ``family`` is ``mariadb`` or ``mysql``, which differ in their types, or ``both``.

    ``without``: columns of ``all_types`` that are left out.
    """
    own = _OWN[family]
    columns = (
        Column("id", "BIGINT NOT NULL", PLAIN),
        *(c for c in (*_common(), *own) if c.name not in without),
        Column("ver", "BIGINT NOT NULL", PLAIN),
        Column("at_us", "BIGINT NOT NULL", PLAIN),
        Column("made", "BIGINT AS (id * 2) STORED", PLAIN),
    )
    return (*_shop(), Table("all_types", ("id",), columns, "PRIMARY KEY (id)"))
