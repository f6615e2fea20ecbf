"""Text compared with integers as decimals: MariaDB's rounding, and that MySQL takes doubles."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from filter.expr import textnumbers
from tests.filter_expr import oracle


@pytest.mark.parametrize(
    ("text", "operator", "in_a_list"),
    [
        (b" 12abc", "12", "12"),
        (b".5", "0.5", "0.5"),
        (b"1.", "1", "1"),
        (b"1e", "1", "1"),
        (b"x", "0", "0"),
        (b"9007199254740993", "9007199254740993", "9007199254740993"),
        (b"5e-40", "1e-39", "5e-40"),
        (b"4e-40", "0", "4e-40"),
        (b"1." + b"0" * 39 + b"1", "1", "1." + "0" * 39 + "1"),
        (b"0." + b"0" * 72 + b"1", "0", "0"),
        (b"0." + b"0" * 71 + b"1", "0", "1e-72"),
        (b"1e-81", "0", "1e-81"),
        (b"1e-82", "0", "0"),
        (b"-1e-99999999999999", "0", "0"),
    ],
)
def test_the_number_that_a_text_begins_with(text: bytes, operator: str, in_a_list: str) -> None:
    """As MariaDB 11.4 has them."""
    assert textnumbers.number(text, listed=True) == Decimal(in_a_list)
    assert textnumbers.number(text, listed=False) == Decimal(operator)


def test_more_digits_than_any_integer_has() -> None:
    assert textnumbers.number(b"1e400", listed=True) > 1 << 64
    assert textnumbers.number(b"9" * 90, listed=False) > 1 << 64


def test_doubles_where_mariadb_takes_decimals_are_seen(
    mariadb: Any, schema_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textnumbers, "taken", lambda values, at: False)
    assert oracle.run(mariadb, schema_name, 40_000, seed=11).differences
