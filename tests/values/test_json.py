"""Binary JSON: the server's own text is the oracle."""

from __future__ import annotations

import random

import pytest

from cdc.kernels.values.errors import JSON_DEPTH, JSON_TRUNCATED, JSON_TYPE, OUT_FULL
from cdc.kernels.values.mysql_json import mysql_json
from tests.values.images import images
from tests.values.kernel import Refused, text

DOCUMENTS = [
    "'null'",
    "'true'",
    "'[]'",
    "'{}'",
    "'\"\"'",
    "'[true, false, null, {\"a\": []}]'",
    "'[0, -1, 32767, -32768, 65535, 65536, -2147483648, 4294967295, 4294967296]'",
    "'[9223372036854775807, -9223372036854775808, 18446744073709551615, 1e400]'",
    '\'{"": 1, "b\\\\\\\\": "x\\\\u0001\\\\n\\\\\\"/é😀", "zz": {"deep": [[[1.5]]]}}\'',
    "json_array(1.0e0, 1e15, 1e14, 1e-15, 1e-16, -0.0e0, 1.7976931348623157e308, 5e-324)",
    "json_array(12.340, -0.50, 99999999999999999999999999999999999.999999999999999999999999999999)",
    "json_array(cast(repeat('9', 65) as decimal(65)), -cast(repeat('8', 64) as decimal(65)))",
    "json_array(cast(concat(repeat('9', 40), '.', repeat('7', 25)) as decimal(65,25)))",
    "json_array(cast(1 as decimal(65,30)), -cast(concat('0.', repeat('1', 30)) as decimal(65,30)))",
    "json_array(cast('2020-01-02' as date), cast('2020-01-02 03:04:05.678' as datetime(3)))",
    "json_array(cast('-12:34:56.7' as time(1)), cast('00:00:00' as time))",
    "json_array(x'cafe', x'', b'101', repeat(x'41', 57), repeat(x'42', 58), repeat(x'43', 500))",
    "cast(cast('2021-02-03 04:05:06' as datetime) as json)",
    "json_array(repeat('é', 70), repeat('x', 127), repeat('y', 128), repeat('z', 20000))",
    "json_object('big', repeat('a\"', 40000), 'n', 70000, 'u', 4000000000, 't', true)",
    "json_array(repeat('a', 70000), 1, -1, 100000, 3000000000, 1.25e0, json_object('k', null))",
    "concat(repeat('[', 99), repeat(']', 99))",
    "concat('[', repeat('1,', 30000), '2]')",
    "concat('[', repeat('{\"k\": -70000},', 9000), '{}]')",
]


@pytest.mark.parametrize("name", ["mysql-8.0", "mysql-9.7"])
def test_json_as_the_server_prints_it(database, name) -> None:  # type: ignore[no-untyped-def]
    documents = [d for d in DOCUMENTS if "1e400" not in d]
    for _, _, image, shown in images(database(name).connect, "json", documents):
        data = image[4:]
        assert text(mysql_json, data, len(data)) == shown


def test_doubles_as_the_server_prints_them(database) -> None:  # type: ignore[no-untyped-def]
    rng = random.Random(5)
    values = [rng.random() * 10.0 ** rng.randint(-20, 20) for _ in range(900)]
    values += [float(rng.getrandbits(rng.randint(50, 64))) for _ in range(100)]
    documents = [
        "json_array(" + ",".join(f"{v:.17e}" for v in values[i : i + 100]) + ")"
        for i in range(0, len(values), 100)
    ]
    for _, _, image, shown in images(database("mysql-8.0").connect, "json", documents):
        assert text(mysql_json, image[4:], len(image) - 4) == shown


def refused(data: bytes) -> int:
    with pytest.raises(Refused) as caught:
        text(mysql_json, data, len(data))
    code: int = caught.value.args[1]
    return code


def test_malformed_documents_are_refused() -> None:
    assert refused(b"\x0d") == JSON_TYPE
    assert refused(b"\x04\x03") == JSON_TYPE
    assert refused(b"\x05\x01") == JSON_TRUNCATED
    assert refused(b"\x02\xff\xff\x04\x00") == JSON_TRUNCATED
    # An array that is its own first member, and a chain in which each array names the next one 250
    # times.
    assert refused(b"\x02\x01\x00\x07\x00\x02\x00\x00") == JSON_DEPTH
    chain = b""
    for level in range(8):
        size = 754 * (8 - level)
        entries = b"\x02" + (754).to_bytes(2, "little") if level < 7 else b"\x04\x00\x00"
        chain += b"\xfa\x00" + size.to_bytes(2, "little") + entries * 250
    assert refused(b"\x02" + chain) == OUT_FULL


def test_empty_value_is_null() -> None:
    assert text(mysql_json, b"", 0) == "null"
