"""What a server itself logged for its tables, found in its binlog by plain Python."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdc.binlog.rows_header import RowsHeader
from cdc.binlog.table_map import TableMap
from tests.codec.binlog_rows import events_of

WRITES = frozenset((23, 30))


@dataclass
class Logged:
    """A table's map, the head of its rows events, and all images behind each other."""

    stored: TableMap
    codes: set[int] = field(default_factory=set)
    images: bytes = b""


def logged(data: bytes) -> dict[str, Logged]:
    """By ``schema.table``, of a binlog file or of events behind four bytes."""
    maps: dict[int, TableMap] = {}
    found: dict[str, Logged] = {}
    for at, code, length in events_of(data):
        body = data[at + 19 : at + length - 4]
        if code == 19:
            stored = TableMap.parse(body)
            maps[stored.table_id] = stored
        elif code in WRITES:
            head = RowsHeader.parse(code, body)
            stored = maps[head.table_id]
            entry = found.setdefault(stored.full_name, Logged(stored))
            entry.codes.add(code)
            entry.images += body[head.rows_at :]
    return found


def in_file(path: Path) -> dict[str, Logged]:
    """The same of a file."""
    return logged(path.read_bytes())


def in_events(events: Iterable[bytes]) -> dict[str, Logged]:
    """The same of events that we made, whose checksums are looked at."""
    made = list(events)
    for event in made:
        assert zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little")
        assert len(event) == int.from_bytes(event[9:13], "little")
    return logged(b"\xfebin" + b"".join(made))


def random_json(rng: random.Random, depth: int, members: int) -> Any:
    """A document whose text says all that MySQL keeps of it: no decimals, dates or bytes."""
    kind = rng.randrange(9) if depth > 0 else rng.randrange(6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.getrandbits(rng.randrange(1, 65))
    if kind == 2:
        return -rng.getrandbits(rng.randrange(1, 64))
    if kind == 3:
        return float(_literal(rng, "double"))
    if kind in (4, 5):
        return _text(rng)
    count = rng.randrange(members + 1)
    if kind == 6:
        return [random_json(rng, depth - 1, members) for _ in range(count)]
    return {_text(rng): random_json(rng, depth - 1, members) for _ in range(count)}


def _text(rng: random.Random) -> str:
    size = rng.choice([0, 1, 3, rng.randrange(200)])
    return "".join(rng.choices('ab"\\/\b\f\n\r\t\x01\x1f\x7fé中😀', k=size))


def random_literals(rng: random.Random, kind: str, count: int) -> list[str]:
    """Values of a type as SQL literals."""
    return [_literal(rng, kind) for _ in range(count)]


def _literal(rng: random.Random, kind: str) -> str:
    name = kind.split("(")[0].split()[0]
    if name in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        bits = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}[name]
        value = rng.getrandbits(rng.randrange(1, bits + 1))
        return str(value if "unsigned" in kind else value - (1 << bits - 1))
    if name == "decimal":
        precision, scale = map(int, kind[8:-1].split(","))
        digits = str(rng.randrange(10 ** rng.randrange(1, precision + 1))).zfill(scale + 1)
        whole, part = digits[: len(digits) - scale], digits[len(digits) - scale :]
        return rng.choice("- ") + (f"{whole}.{part}" if scale else whole)
    if name == "double":
        value = float("nan")
        while value != value or value in (float("inf"), float("-inf")):
            value = struct.unpack("<d", rng.randbytes(8))[0]
        return repr(value) if rng.random() < 0.7 else f"{rng.uniform(-1e6, 1e6):.4e}"
    if name == "float":
        value = float("nan")
        while value != value or value in (float("inf"), float("-inf")):
            value = struct.unpack("<f", rng.randbytes(4))[0]
        return repr(value)
    if name in ("date", "datetime", "timestamp"):
        years = (1971, 2037) if name == "timestamp" else (1, 9999)
        day = f"{rng.randint(*years):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        if name == "date":
            return f"'{day}'"
        return f"'{day} {_clock(rng, 23)}'"
    if name == "time":
        return f"'{rng.choice(['', '-'])}{_clock(rng, 837)}'"
    return f"x'{rng.randbytes(rng.randrange(8)).hex()}'"


def _clock(rng: random.Random, hours: int) -> str:
    micros = rng.choice([0, rng.randrange(10**6)])
    return f"{rng.randint(0, hours):02}:{rng.randrange(60):02}:{rng.randrange(60):02}.{micros:06}"
