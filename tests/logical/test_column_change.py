"""Values that a part has in another type become those that the server itself stores in it.

A real server copies a value from the one column to the other. Where both then show the same value,
ours must be the bytes that the server logged for the logical column; else it must be refused.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from cdc.binlog.header import CHECKSUM_LENGTH
from cdc.binlog.writer import build_event
from cdc.kernels import shape as K  # noqa: N812
from cdc.kernels.charsets import NAMES
from cdc.logical.column_change import ColumnChange, Encoders
from cdc.logical.errors import ShapeUnclear, ShapeValueLost
from cdc.logical.shape import shape
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Table
from cdc.snapshot.table_map import table_map
from tests import seeds
from tests.servers import Database
from tests.values.images import images

SERVERS = ["mariadb-11.4", "mysql-8.0"]
TEXT = "hex(convert(v using utf8mb4))"
NO_CHARACTER = "\ufffd".encode()
# Table number, flags, no extra data, one column, which is there.
HEAD = (7).to_bytes(6, "little") + b"\x01\x00\x02\x00\x01\x01"


def table(column: str) -> Table:
    text = f"CREATE TABLE t (v {column} NOT NULL)"
    return parse_create_table(text, Session(), schema="s", charset="utf8mb4", collation=None)


def becomes(part: str, logical: str, kind: str, image: bytes) -> bytes | None:
    """The image of a value of ``part`` in a column ``logical``; None where it has no place."""
    before = table(part)
    found = shape(table_map(before, 5, kind), before, table(logical), kind)
    data = build_event(30, HEAD + b"\x00" + image)
    if found.same:
        return image
    try:
        made = found.rows(np.frombuffer(data, np.uint8), 0, len(data), "here")
    except ShapeValueLost:
        return None
    head = build_event(30, HEAD + b"\x00")
    return made[len(head) - CHECKSUM_LENGTH : -CHECKSUM_LENGTH]


def compared(
    server: Database, part: str, logical: str, values: list[str], show: str
) -> tuple[int, int]:
    """How many values have a place, and how many have none; ``show``: by what they are equal."""
    kind = server.name.split("-")[0]
    _fill(server, part, values)
    copies = [f"(select v from parts where id = {i})" for i in range(len(values))]
    before = images(server.connect, part, copies, show)
    after = images(server.connect, logical, copies, show)
    fit, lost = 0, 0
    for value, (_, _, image, shown), (_, _, wanted, stored) in zip(
        values, before, after, strict=True
    ):
        made = becomes(part, logical, kind, image)
        if show == TEXT and NO_CHARACTER in bytes.fromhex(shown):
            # Bytes that a character set does not have are that in tis620 and big5.
            continue
        if shown == stored:
            assert made == wanted, f"{value}: {part} to {logical}"
            fit += 1
        else:
            assert made is None, f"{value}, {shown!r}, {stored!r}: {part} to {logical}"
            lost += 1
    return fit, lost


def _fill(server: Database, part: str, values: list[str]) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("set autocommit = 1, sql_mode = '', names utf8mb4")
        cursor.execute("create database if not exists images")
        cursor.execute("drop table if exists images.parts")
        cursor.execute(f"create table images.parts (id int, v {part} not null)")
        for i, value in enumerate(values):
            cursor.execute(f"insert into images.parts values ({i}, {value})")


def decimals(rng: random.Random) -> Iterator[str]:
    yield from ("0", "1", "-1", "0.5", "-0.5", "999999999", "-999999999.999999999")
    for _ in range(40):
        whole = rng.choice(("0", str(rng.randrange(10 ** rng.randint(1, 20)))))
        tail = "".join(rng.choices("0005", k=rng.randint(0, 9)))
        yield f"{rng.choice(('', '-'))}{whole}.{tail}0"


@pytest.mark.parametrize("name", SERVERS)
def test_decimals_keep_all_digits(database: Callable[[str], Database], name: str) -> None:
    rng = random.Random(seeds.seed())
    sizes = [(1, 0), (5, 2), (9, 0), (10, 4), (18, 9), (20, 2), (31, 12), (65, 30), (30, 30)]
    counts = np.zeros(2, np.int64)
    for _ in range(12):
        part, logical = ("decimal({},{})".format(*rng.choice(sizes)) for _ in range(2))
        counts += compared(database(name), part, logical, list(decimals(rng)), "v")
    assert counts.min() > 10


INTEGERS = ["tinyint", "smallint", "mediumint", "int", "bigint"]


def wholes(rng: random.Random) -> Iterator[str]:
    """Numbers that columns of integers and of decimals are given, some with a fraction."""
    yield from ("0", "1", "-1", "0.5", "-0.4", "127", "128", "-128", "255", "256", "-32769")
    yield from ("9223372036854775807", "-9223372036854775808", "18446744073709551615")
    for _ in range(30):
        whole = rng.randrange(10 ** rng.randint(1, 19))
        yield f"{rng.choice(('', '-'))}{whole}{rng.choice(('', '', '.0', '.5', '.001'))}"


@pytest.mark.parametrize("name", SERVERS)
def test_integers_and_decimals(database: Callable[[str], Database], name: str) -> None:
    rng = random.Random(seeds.seed())
    sizes = [(1, 0), (3, 0), (5, 2), (10, 0), (12, 4), (20, 0), (25, 5), (65, 30)]
    counts = np.zeros(2, np.int64)
    for integer in [*INTEGERS, *(f"{i} unsigned" for i in INTEGERS)]:
        pair = [integer, "decimal({},{})".format(*rng.choice(sizes))]
        counts += compared(database(name), *pair, list(wholes(rng)), "v + 0")
        counts += compared(database(name), *reversed(pair), list(wholes(rng)), "v + 0")
    assert counts.min() > 50


def floats(rng: random.Random) -> Iterator[str]:
    yield from ("0", "-0e0", "1", "-1.5", "0.1", "1e-45", "3e-45", "1.1754943508222875e-38")
    yield from ("3.4028234663852886e38", "-3.4e38", "16777216", "16777217", "5e-324", "1e300")
    for _ in range(40):
        # Some have a float's bits, some more.
        numerator = rng.randrange(1 << rng.choice((8, 23, 24, 25, 53)))
        yield f"{rng.choice(('', '-'))}{numerator * 2.0 ** rng.randint(-170, 100)!r}"


@pytest.mark.parametrize("name", SERVERS)
def test_floats_and_doubles(database: Callable[[str], Database], name: str) -> None:
    rng = random.Random(seeds.seed())
    server, values = database(name), list(floats(rng))
    fit, lost = compared(server, "float", "double", values, "v + 0e0")
    assert (fit, lost) == (len(values), 0)
    fit, lost = compared(server, "double", "float", values, "v + 0e0")
    assert min(fit, lost) > 5


@pytest.mark.parametrize("name", SERVERS)
def test_dates_and_their_midnights(database: Callable[[str], Database], name: str) -> None:
    rng = random.Random(seeds.seed())
    days = [f"{rng.randrange(1, 10000):04}-{rng.randrange(1, 13):02}-{d:02}" for d in range(1, 29)]
    days += ["0000-00-00", "2024-02-29", "9999-12-31", "2020-00-00", "1000-01-01"]
    times = ("", " 00:00:00.5", " 00:00:01", " 23:59:59.999999", "")
    values = [f"'{day}{rng.choice(times)}'" for day in days]
    shown = "cast(cast(v as datetime(6)) as char)"
    for digits in (0, 1, 4, 6):
        pair = ("date", f"datetime({digits})")
        fit, lost = compared(database(name), *pair, values, shown)
        assert (fit, lost) == (len(values), 0)
        fit, lost = compared(database(name), *reversed(pair), values, shown)
        assert min(fit, lost) > 3


@pytest.mark.parametrize("name", SERVERS)
def test_texts_and_their_bytes(database: Callable[[str], Database], name: str) -> None:
    rng = random.Random(seeds.seed())
    counts = np.zeros(2, np.int64)
    for charset in ("utf8mb4", "utf8mb3", "latin1", "ucs2"):
        texts = [f"{t} character set {charset}" for t in ("varchar(6)", "char(6)", "tinytext")]
        for _ in range(4):
            pair = [rng.choice(texts), rng.choice(("varbinary(12)", "tinyblob", "blob"))]
            drawn = (whole_characters(rng.randbytes(rng.randint(0, 14))) for _ in range(8))
            values = [f"x'{raw.hex()}'" for raw in drawn]
            values += [f"x'{t.encode().hex()}'" for t in ("plain", "aé", "日本", "a ", " ", "😀")]
            counts += compared(database(name), *pair, values, "hex(v)")
            counts += compared(database(name), *reversed(pair), values, "hex(v)")
    assert counts.min() > 20


def moments(rng: random.Random, kind: str) -> Iterator[str]:
    for _ in range(40):
        micros = rng.choice((0, 500_000, 120_000, 1_000, 10, rng.randrange(1_000_000)))
        clock = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}.{micros:06}"
        if kind == "time":
            yield f"'{rng.choice(('', '-', '8', '-7'))}{clock}'"
        else:
            yield f"'{rng.randrange(1971, 2037)}-{rng.randrange(1, 13):02}-11 {clock}'"
    yield "'00:00:00'" if kind == "time" else "'2000-01-01 00:00:00'"


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("kind", ["datetime", "timestamp", "time"])
def test_moments_keep_their_fractions(
    database: Callable[[str], Database], name: str, kind: str
) -> None:
    rng = random.Random(seeds.seed())
    counts = np.zeros(2, np.int64)
    digits = [(6, 0), (3, 1), (2, 5), (0, 6)]
    digits += [(rng.randint(0, 6), rng.randint(0, 6)) for _ in range(4)]
    for pair in digits:
        part, logical = (f"{kind}({n})" for n in pair)
        values = list(moments(rng, kind))
        counts += compared(database(name), part, logical, values, "v + 0")
    assert counts.min() > 5


def whole_characters(drawn: bytes) -> bytes:
    """Without halves of characters, which ucs2 stores, and MariaDB in UTF-8, too (ED A0..)."""
    return re.sub(rb"\xed(?=[\xa0-\xbf])", b"e", bytes(b for b in drawn if not 0xD8 <= b <= 0xDF))


def texts(rng: random.Random, charset: str) -> Iterator[str]:
    """Texts of characters that a character set has, and of some that it may lack."""
    for _ in range(12):
        raw = whole_characters(rng.randbytes(4 * rng.randint(1, 6)))
        yield f"convert(convert(x'{raw.hex()}' using {charset}) using utf8mb4)"
    for sample in ("plain", "", "Äé€", "日本語", "кир", "한국어", "中文 😀", "ｱﾟ～−∥"):
        yield f"convert(x'{sample.encode().hex()}' using utf8mb4)"


@pytest.mark.parametrize("name", SERVERS)
def test_texts_keep_all_characters(database: Callable[[str], Database], name: str) -> None:
    rng = random.Random(seeds.seed())
    lacking = {"binary"} | ({"gb18030"} if name.startswith("mariadb") else set())
    known = [c for c in NAMES if c not in lacking]
    pairs = [("utf8mb4", c) for c in known if c != "utf8mb4"]
    pairs += [(rng.choice(known), rng.choice(known)) for _ in range(25)]
    counts = np.zeros(2, np.int64)
    for part, logical in pairs:
        types = [
            f"{rng.choice(('varchar(60)', 'char(40)', 'text'))} character set {c}"
            for c in (part, logical)
        ]
        values = list(texts(rng, rng.choice((part, logical))))
        counts += compared(database(name), *types, values, TEXT)
    assert counts.min() > 50


@pytest.mark.parametrize(
    ("part", "logical", "values"),
    [
        (
            "varchar(20) character set utf8mb3",
            "varchar(3) character set utf8mb4",
            ("'abc'", "'éàü'"),
        ),
        ("varchar(20)", "varchar(3) character set latin1", ("'abc'", "'abcd'", "'éàü'", "'日'")),
        ("varchar(20)", "char(20)", ("'abc'", "'abc '", "' é'", "'é  '", "' '")),
        ("char(20)", "varchar(20)", ("'abc'", "'abc '")),
        ("varchar(20) character set utf16", "char(20) character set utf16", ("'aĠ'", "'a '")),
        ("text", "tinytext character set latin1", ("repeat('é', 255)", "repeat('é', 256)")),
        ("tinytext character set latin1", "tinytext", ("repeat('é', 127)", "repeat('é', 128)")),
        ("enum('x','y') character set latin1", "enum('x') character set utf8mb4", ("'x'", "'y'")),
        ("set('a','b','c','d','e','f','g','h','i')", "set('a','b')", ("'a'", "'a,b'", "'i'", "''")),
        ("set('a','b')", "set('a','b','c','d','e','f','g','h','i')", ("'a,b'",)),
    ],
)
@pytest.mark.parametrize("name", SERVERS)
def test_lengths_and_members(
    database: Callable[[str], Database],
    name: str,
    part: str,
    logical: str,
    values: tuple[str, ...],
) -> None:
    compared(database(name), part, logical, list(values), TEXT)


@pytest.mark.parametrize(
    ("part", "logical"),
    [
        ("decimal(5,2)", "decimal(6,2) unsigned"),
        ("datetime(3)", "timestamp(3)"),
        ("binary(9)", "varchar(9)"),
        ("varchar(9)", "int"),
        ("double", "float(7,2)"),
        ("float", "double unsigned"),
        ("int", "decimal(10,0) unsigned"),
        ("date", "timestamp"),
    ],
)
def test_what_is_not_the_same_value_by_its_type_is_refused(part: str, logical: str) -> None:
    before = table(part)
    with pytest.raises(ShapeUnclear, match="column v is"):
        shape(table_map(before, 5, "mariadb"), before, table(logical), "mariadb")


def test_what_is_stored_compressed_is_no_value() -> None:
    (before,), (after,) = table("blob compressed").columns, table("mediumblob").columns
    change = ColumnChange(before, after, (252, 2), (252, 3))
    with pytest.raises(ShapeUnclear, match="column v is"):
        change.plan(np.zeros(K.S_SIZE, np.int64), Encoders(), "s.t")
    ColumnChange(after, after, (252, 3), (252, 3)).plan(
        np.zeros(K.S_SIZE, np.int64), Encoders(), "s.t"
    )
