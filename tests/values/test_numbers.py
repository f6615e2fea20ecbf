"""Numbers: Python's and numpy's own formatting, and the servers, are the oracles."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pytest

from cdc.kernels.values import decimals, floats, integers
from cdc.kernels.values.errors import DECIMAL_DIGITS, DECIMAL_PRECISION
from tests.values.images import images
from tests.values.kernel import Refused, text

SERVERS = ["mariadb-11.4", "mysql-8.0"]
EDGES = [
    0.0,
    -0.0,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    1e23,
    9007199254740993.0,
]


def plain(value: float) -> str:
    shown = format(Decimal(repr(value)), "f")
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def test_double_is_the_shortest_text_without_exponent() -> None:
    rng = np.random.default_rng(20)
    values = [
        *rng.integers(0, 1 << 64, 30_000, dtype=np.uint64).view(np.float64),
        *(rng.integers(0, 10**9, 10_000) / 100),
        *(10.0**k for k in range(-323, 309)),
        *(2.0**k for k in range(-1074, 1024)),
        *EDGES,
    ]
    for value in map(float, values):
        if np.isfinite(value):
            assert text(floats.double, np.float64(value).tobytes()) == plain(value)


def test_float_is_the_shortest_text_of_32_bits() -> None:
    rng = np.random.default_rng(21)
    values = np.concatenate(
        [
            rng.integers(0, 1 << 32, 30_000, dtype=np.uint64).astype(np.uint32).view(np.float32),
            (rng.integers(0, 10**7, 10_000) / 100).astype(np.float32),
            np.array([2.0**k for k in range(-149, 128)], dtype=np.float32),
        ]
    )
    for value in values[np.isfinite(values)]:
        expected = np.format_float_positional(value, unique=True, trim="-")
        assert text(floats.float32, value.tobytes()) == expected


def test_not_finite_does_not_crash() -> None:
    shown = [text(floats.double, np.float64(v).tobytes()) for v in ("inf", "-inf", "nan")]
    assert shown == ["+Inf", "-Inf", "NaN"]


@pytest.mark.parametrize("bits", [8, 16, 24, 32, 64])
def test_integers(bits: int) -> None:
    random.seed(bits)
    signed = getattr(integers, f"int{bits}")
    unsigned = getattr(integers, f"uint{bits}")
    values = [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    values += [random.getrandbits(random.randint(1, bits)) for _ in range(2000)]
    values += [10**k for k in range(20) if 10**k < 1 << bits]
    for value in values:
        data = value.to_bytes(bits // 8, "little")
        assert text(unsigned, data) == str(value)
        assert text(signed, data) == str(int.from_bytes(data, "little", signed=True))


def test_year_and_bit() -> None:
    assert [text(integers.year, bytes([y])) for y in (0, 1, 126, 255)] == [
        "0000",
        "1901",
        "2026",
        "2155",
    ]
    assert text(integers.bit, b"\xff" * 8, 8) == str(2**64 - 1)
    assert text(integers.bit, b"\x01\x00", 2) == "256"


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(
    ("precision", "scale"), [(5, 2), (10, 0), (18, 9), (30, 30), (65, 30), (65, 0)]
)
def test_decimal_as_the_server_prints_it(database, name, precision, scale) -> None:  # type: ignore[no-untyped-def]
    random.seed(precision * 100 + scale)
    digits = [
        "9" * precision,
        "0" * precision,
        "1".rjust(precision, "0"),
        "1".ljust(precision, "0"),
    ]
    digits += [
        "".join(random.choices("0123456789", k=random.randint(1, precision))) for _ in range(6)
    ]
    values = []
    for d in digits:
        d = d.rjust(precision, "0")
        number = f"{d[: precision - scale] or '0'}.{d[precision - scale :] or '0'}"
        values += [number, "-" + number]
    column = f"decimal({precision},{scale})"
    found = images(database(name).connect, column, values, show="cast(v as char)")
    for _, metadata, image, shown in found:
        assert tuple(metadata) == (precision, scale)
        assert len(image) == decimals.decimal_bytes(precision, scale)
        assert text(decimals.decimal, image, precision, scale) == shown


def test_malformed_decimals_are_refused() -> None:
    with pytest.raises(Refused, match=str(DECIMAL_DIGITS)):
        text(decimals.decimal, b"\xff\xff\xff\xff", 9, 0)
    with pytest.raises(Refused, match=str(DECIMAL_PRECISION)):
        text(decimals.decimal, b"\x80\x00", 82, 2)
