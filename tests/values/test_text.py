"""Text and bytes: the servers' conversion, and Python's JSON, are the oracles."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from cdc.kernels.charsets import NAMES, charset_code, collations, encoder, tables
from cdc.kernels.values.binary import binary
from cdc.kernels.values.errors import CHARSET_UNKNOWN, TEXT_INVALID
from cdc.kernels.values.escape import escape_text, utf8
from cdc.kernels.values.text import text as charset_text
from tests.values.images import images
from tests.values.kernel import Refused, text

SERVERS = ["mariadb-11.4", "mysql-8.0"]
SAMPLE = (
    'plain ASCII of some length "quoted\\ \t\x01 ÄÖÜé ß €日本語 한국어 中文 кир ไทย עברית ελ 😀ｱ'
)


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("charset", [c for c in NAMES if c != "binary"])
def test_charset_of_a_column(database, name, charset) -> None:  # type: ignore[no-untyped-def]
    if charset == "gb18030" and name.startswith("mariadb"):
        pytest.skip("MariaDB has no gb18030")
    literal = "x'" + SAMPLE.encode().hex() + "'"
    value = f"convert(convert({literal} using utf8mb4) using {charset})"
    found = images(database(name).connect, f"varchar(200) character set {charset}", [value])
    for _, _, image, shown in found:
        prefix = len(image) - (image[0] if image[0] == len(image) - 1 else len(image) - 2)
        data = image[prefix:]
        got = text(charset_text, data, len(data), charset_code(charset), tables())
        assert got == shown


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_every_mapped_sequence(database, name) -> None:  # type: ignore[no-untyped-def]
    """All single bytes and every two-byte sequence, as the server converts them."""
    with database(name).connect() as connection:
        cursor = connection.cursor()
        for charset in (
            "latin1",
            "cp1251",
            "koi8r",
            "swe7",
            "geostd8",
            "sjis",
            "gbk",
            "big5",
            "euckr",
        ):
            codes = list(range(1, 256)) + list(range(0x8140, 0x10000, 7))
            random.Random(1).shuffle(codes)
            for start in range(0, 2000, 500):
                part = [c.to_bytes(1 if c < 256 else 2, "big") for c in codes[start : start + 500]]
                columns = (
                    f"convert(convert(x'{b.hex()}' using {charset}) using utf8mb4)" for b in part
                )
                cursor.execute("select " + ",".join(columns))
                for data, shown in zip(part, cursor.fetchone(), strict=True):
                    try:
                        got = text(charset_text, data, len(data), charset_code(charset), tables())
                    except Refused:
                        assert not shown or "?" in shown or shown == ""
                    else:
                        assert got == shown


@pytest.mark.parametrize("name", SERVERS)
def test_every_character_is_encoded_as_the_server_does(database, name) -> None:  # type: ignore[no-untyped-def]
    points = [p for p in range(1, 1 << 16) if not 0xD800 <= p < 0xE000 and p != 0xFFFD]
    with database(name).connect() as connection, connection.cursor() as cursor:
        for charset in NAMES:
            code = charset_code(charset)
            assert code is not None
            made = encoder(code)
            if not made.size or (charset == "gb18030" and name.startswith("mariadb")):
                continue
            mapped = [p for p in points if made[p]]
            assert len(mapped) > 120, charset
            for start in range(0, len(mapped), 2000):
                part = mapped[start : start + 2000]
                texts = (f"hex(convert(_utf32 x'{p:08x}' using {charset}))" for p in part)
                cursor.execute(f"select {','.join(texts)}")
                assert [int(h, 16) for h in cursor.fetchone()] == made[part].tolist(), charset
            lacking = [p for p in points if not made[p]][::100]
            if not lacking:
                continue
            texts = (f"hex(convert(_utf32 x'{p:08x}' using {charset}))" for p in lacking)
            cursor.execute(f"select {','.join(texts)}")
            assert set(cursor.fetchone()) == {"3F"}, charset


def test_utf8_is_escaped_and_checked() -> None:
    rng = random.Random(7)
    pieces = ["a", 'b"', "\\", "\n", "\x01", "ü", "日", "😀", "abcdefgh", "0123456789abcdef", "<&>"]
    for _ in range(5000):
        value = "".join(rng.choices(pieces, k=rng.randint(0, 12)))
        data = value.encode()
        assert text(utf8, data, len(data)) == value
        assert json.loads(b'"' + escape_text(value) + b'"') == value
    for _ in range(5000):
        data = rng.choice([b"", b"plain text "]) + rng.randbytes(rng.randint(0, 9))
        try:
            expected: tuple[object, ...] = (data.decode(),)
        except UnicodeDecodeError as error:
            expected = (error.start, TEXT_INVALID)
        try:
            got: tuple[object, ...] = (text(utf8, data, len(data)),)
        except Refused as refused:
            got = refused.args
        assert got == expected


def test_bytes_become_code_points_and_padding_returns() -> None:
    rng = random.Random(8)
    for _ in range(3000):
        data = rng.randbytes(rng.randint(0, 40))
        assert text(binary, data, len(data), 0) == data.decode("latin1")
        assert text(binary, data, len(data), len(data) + 3) == data.decode("latin1") + "\0\0\0"


def test_unknown_charset_is_refused() -> None:
    assert charset_code("klingon") is None
    with pytest.raises(Refused, match=str(CHARSET_UNKNOWN)):
        text(charset_text, b"x", 1, 63, tables())


@pytest.mark.parametrize(("name", "family"), [("mysql-8.0", "mysql"), ("mariadb-11.4", "mariadb")])
def test_collations_of_the_servers(database, name, family) -> None:  # type: ignore[no-untyped-def]
    view = "collations" if family == "mysql" else "collation_character_set_applicability"
    rows = database(name).execute(f"select id, character_set_name from information_schema.{view}")
    known = collations(family)
    assert all(known[number] == charset for number, charset in rows)
    assert all(charset_code(charset) is not None for charset in known.values())


def test_tables_are_small_and_read_only() -> None:
    assert tables().dtype == np.uint16
    assert not tables().flags.writeable
