"""Rows of a part in the logical definition: every column is its own, whatever the order of changes.

The bytes of rows are made and read here; only the shape is the product's.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from cdc.binlog.table_map import TableMap
from cdc.binlog.writer import build_event
from cdc.logical.errors import ShapeUnclear, ShapeValueLost
from cdc.logical.shape import shape, shown
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Table
from cdc.snapshot.table_map import table_map
from tests import seeds

SESSION = Session()
# Type, value of a row by a number, default of the type as it is written, and its value.
KINDS = {
    "INT": ("5", 5),
    "BIGINT": ("-6", -6),
    "SMALLINT UNSIGNED": ("60000", 60000),
    "VARCHAR(20)": ("'ab'", "ab"),
    "VARCHAR(300)": ("'é'", "é"),
    "TEXT": ("", None),
    "CHAR(4)": ("'c'", "c"),
}
SIZES = {"INT": 4, "BIGINT": 8, "SMALLINT UNSIGNED": 2}
PREFIXES = {"VARCHAR(20)": 1, "VARCHAR(300)": 2, "TEXT": 2, "CHAR(4)": 1}


@dataclass(frozen=True)
class Column:
    name: str
    kind: str

    def text(self) -> str:
        default = KINDS[self.kind][0]
        return f"`{self.name}` {self.kind}" + (f" DEFAULT {default}" if default else "")

    def value(self, row: int) -> object:
        number = (row * 31 + sum(map(ord, self.name))) % 900
        if number % 7 == 0:
            return None
        return number if self.kind in SIZES else str(number)


def table(schema: str, columns: list[Column]) -> Table:
    text = f"CREATE TABLE t ({', '.join(c.text() for c in columns)})"
    return parse_create_table(text, SESSION, schema=schema, charset="utf8mb4", collation=None)


def image(columns: list[Column], values: list[object]) -> bytes:
    bits = bytearray((len(columns) + 7) // 8)
    body = b""
    for i, (column, value) in enumerate(zip(columns, values, strict=True)):
        if value is None:
            bits[i >> 3] |= 1 << (i & 7)
        elif isinstance(value, int):
            body += value.to_bytes(SIZES[column.kind], "little", signed=value < 0)
        else:
            raw = str(value).encode()
            body += len(raw).to_bytes(PREFIXES[column.kind], "little") + raw
    return bytes(bits) + body


def event(columns: list[Column], rows: list[list[object]], *, update: bool) -> bytes:
    count = len(columns)
    full = bytes(
        255 if count - 8 * i >= 8 else (1 << count - 8 * i) - 1 for i in range((count + 7) // 8)
    )
    head = (7).to_bytes(6, "little") + b"\x01\x00\x02\x00" + bytes([count])
    body = head + full * (2 if update else 1) + b"".join(image(columns, row) for row in rows)
    return build_event(31 if update else 30, body, timestamp=99)


def shaped(before: list[Column], after: list[Column], data: bytes) -> tuple[bytes, TableMap]:
    part = table("p", before)
    found = shape(table_map(part, 5, "mysql"), part, table("shop", after), "mysql")
    array = np.frombuffer(data, np.uint8)
    return (data if found.same else found.rows(array, 0, len(data), "here")), found.stored


def test_each_column_is_its_own_in_any_order_of_changes() -> None:
    chosen = random.Random(seeds.seed())
    changed = 0
    for _ in range(150):
        both = [Column(f"k{i}", chosen.choice(list(KINDS))) for i in range(chosen.randint(1, 12))]
        before, after = both[:], both[:]
        # Either the part has more already, or it has less already.
        one = before if chosen.random() < 0.5 else after
        for i in range(chosen.randint(0, 3)):
            column = Column(f"more{i}", chosen.choice(list(KINDS)))
            one.insert(chosen.randint(0, len(one)), column)
        chosen.shuffle(before)
        rows = [[c.value(row) for c in before] for row in range(4)]
        update = chosen.random() < 0.5
        data = event(before, rows, update=update) + event(before, rows[:2], update=update)
        made, stored = shaped(before, after, data)
        has = {c.name for c in before}
        wanted = [
            [c.value(row) if c.name in has else KINDS[c.kind][1] for c in after] for row in range(4)
        ]
        assert made == event(after, wanted, update=update) + event(after, wanted[:2], update=update)
        logical = table_map(table("shop", after), 0, "mysql")
        assert (stored.types, stored.metadata) == (logical.types, logical.metadata)
        assert (stored.schema, stored.name, stored.table_id) == ("shop", "t", 0)
        changed += made != data
    assert changed > 50


@pytest.mark.parametrize(
    ("part", "logical", "value", "wanted"),
    [
        ("BIGINT", "INT", 70_000, 70_000),
        ("BIGINT", "INT", -3, -3),
        ("BIGINT", "INT", 1 << 40, None),
        ("INT", "BIGINT", -70_000, -70_000),
        ("SMALLINT UNSIGNED", "INT", 60_000, 60_000),
        ("INT", "SMALLINT UNSIGNED", -1, None),
        ("VARCHAR(300)", "VARCHAR(20)", "x" * 20, "x" * 20),
        ("VARCHAR(300)", "VARCHAR(20)", "é" * 20, "é" * 20),
        ("VARCHAR(300)", "VARCHAR(20)", "x" * 21, None),
        ("VARCHAR(20)", "TEXT", "abc", "abc"),
        ("TEXT", "VARCHAR(300)", "é" * 301, None),
        ("CHAR(4)", "VARCHAR(20)", "abc", "abc"),
    ],
)
def test_values_of_another_type_are_the_same_or_refused(
    part: str, logical: str, value: object, wanted: object
) -> None:
    before, after = [Column("c", part)], [Column("c", logical)]
    data = event(before, [[value], [None]], update=False)
    if wanted is None:
        with pytest.raises(ShapeValueLost, match=r"shop\.t: .* column c "):
            shaped(before, after, data)
        return
    made, _ = shaped(before, after, data)
    assert made == event(after, [[wanted], [None]], update=False)


def parsed(columns: str) -> Table:
    text = f"CREATE TABLE t ({columns})"
    return parse_create_table(text, SESSION, schema="s", charset="utf8mb4", collation=None)


@pytest.mark.parametrize(
    ("part", "logical", "why"),
    [
        ("id INT, a INT", "id INT, b INT", "renamed"),
        ("id INT, a DOUBLE", "id INT, a FLOAT(7,2)", "column a"),
        ("id INT, a INT", "id INT, a TEXT", "column a"),
        ("id INT, a ENUM('x','y')", "id INT, a ENUM('y','x')", "column a"),
        ("id INT", "id INT, a DATETIME NOT NULL DEFAULT NOW()", "column a"),
        ("id INT", "id INT, a DATETIME NOT NULL", "column a"),
    ],
)
def test_what_is_not_clear_is_refused(part: str, logical: str, why: str) -> None:
    before = parsed(part)
    with pytest.raises(ShapeUnclear, match=why):
        shape(table_map(before, 5, "mysql"), before, parsed(logical), "mysql")


def test_members_that_come_are_numbers_still() -> None:
    before, after = parsed("a ENUM('x','y','z')"), parsed("a ENUM('x','y')")
    found = shape(table_map(before, 5, "mysql"), before, after, "mysql")
    head = (7).to_bytes(6, "little") + b"\x01\x00\x02\x00\x01\x01"
    for number, lost in ((2, False), (3, True)):
        data = build_event(30, head + b"\x00" + bytes([number]))
        array = np.frombuffer(data, np.uint8)
        if lost:
            with pytest.raises(ShapeValueLost):
                found.rows(array, 0, len(data), "here")
        else:
            assert found.rows(array, 0, len(data), "here") == data


def test_hidden_keys_are_not_shown() -> None:
    part = parsed("a INT, _drds_implicit_id_ BIGINT NOT NULL, PRIMARY KEY (_drds_implicit_id_)")
    table = shown(part)
    assert [c.name for c in table.columns] == ["a"]
    assert not table.indexes
    found = shape(table_map(part, 5, "mysql"), part, table, "mysql")
    head = (7).to_bytes(6, "little") + b"\x01\x00\x02\x00"
    data = build_event(30, head + b"\x02\x03\x00" + (4).to_bytes(4, "little") + bytes(8))
    wanted = build_event(30, head + b"\x01\x01\x00" + (4).to_bytes(4, "little"))
    assert found.rows(np.frombuffer(data, np.uint8), 0, len(data), "here") == wanted
