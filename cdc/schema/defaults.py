"""Literal defaults in the form in which a column shows them."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from cdc.schema.expressions import Default
from cdc.schema.table import Column
from cdc.schema.types import INTEGERS, NUMBERS

# Enough digits for every DECIMAL.
_WIDE = Context(prec=100)


def default_text(value: Default, column: Column) -> str | None:
    """The default as a column shows it: bits as ``b'…'``, hexadecimal numbers in decimal."""
    text = value.text
    if text is None or value.expression:
        return text
    if column.data_type == "bit":
        return value.bits or (f"b'{int(text):b}'" if text.isdigit() else text)
    number = column.data_type in NUMBERS or column.data_type == "year"
    if number and value.bits is not None and not value.quoted:
        text = str(int(value.bits[2:-1], 2))
        return _full_year(text, quoted=False) if column.data_type == "year" else text
    if column.data_type in INTEGERS or column.data_type == "decimal" or column.scale is not None:
        return _rounded(text, column) if column.data_type in NUMBERS else text
    if column.data_type == "float":
        return _short_float(text)
    if column.data_type == "year":
        return _full_year(text, quoted=value.quoted)
    return text


def _short_float(text: str) -> str:
    # FLOAT keeps no more digits than these.
    try:
        return f"{float(text):.6g}"
    except ValueError:
        return text


def _full_year(text: str, *, quoted: bool) -> str:
    # MySQL manual, "2-Digit Years in Dates".
    if not text.isdigit() or int(text) > 99 or len(text) == 4:
        return text
    year = int(text)
    if year == 0 and not quoted:
        return "0000"
    return str(year + (2000 if year < 70 else 1900))


def _rounded(text: str, column: Column) -> str:
    scale = 0 if column.data_type in INTEGERS else column.scale or 0
    try:
        value = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)
    except InvalidOperation:
        return text
    return f"{value:f}"
