"""Messages of ``protocol=debezium``, and rows of the upstream as they would have them.

The topics may begin with those of a connector of Debezium's that a changefeed has gone on from.

Types and their forms:
https://debezium.io/documentation/reference/stable/connectors/mysql.html#mysql-data-types
Keys and values are read with their schemas and without, whatever the option says.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from cdc.base.ts import Ts, compose
from cdc.schema.session import Session
from cdc.verify.columns import ColumnInfo, Compared, ValueForm
from cdc.verify.documents import canonical
from cdc.verify.fold_store import TextRow
from cdc.verify.keys import KeyUnreadable
from cdc.verify.messages import ChangeTold, RowsTold, float_text

_KINDS = {"c": "INSERT", "r": "INSERT", "u": "UPDATE", "d": "DELETE"}
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")
_EPOCH = date(1970, 1, 1)
_DAY_S = 86_400
# As a TIMESTAMP it begins a second later.
_ZERO = "1970-01-01"
_SIGNED_END = 1 << 63


class DebeziumForm:
    """``cdc.verify.messages.MessageForm`` of Debezium's JSON."""

    def read(
        self, key: bytes | None, value: bytes, session: Session
    ) -> RowsTold | ChangeTold | None:
        """As ``MessageForm.read``."""
        payload = _payload(value)
        source = payload["source"]
        ts = _commit_ts(source)
        if "ddl" in payload:
            if source["snapshot"] != "false":
                # What a connector finds there when it begins: no change.
                return None
            here = replace(session, default_schema=payload["databaseName"])
            return ChangeTold(payload["ddl"], here, ts, int(source["ts_ms"]))
        kind, before, after = _KINDS[payload["op"]], payload["before"], payload["after"]
        row = _texts(before if kind == "DELETE" else after)
        # An option leaves out what an updated row was before.
        old = _texts(before) if kind == "UPDATE" and before is not None else {}
        named = tuple(_payload(key)) if key is not None else ()
        return RowsTold(kind, (source["db"], source["table"]), named, [row], [old], ts)

    def sql(self, column: Compared) -> str:
        """As ``MessageForm.sql``."""
        q = column.sql
        if column.form is ValueForm.NUMBER:
            return f"({q} + 0)"
        if column.form is ValueForm.FLOAT:
            return f"({q} + 0e0)"
        if column.form in (ValueForm.TEXT, ValueForm.MEMBERS):
            return f"CONVERT({q} USING utf8mb4)"
        return f"HEX({q})" if column.form is ValueForm.BYTES else f"CAST({q} AS CHAR)"

    def value(self, column: Compared, text: str) -> str | None:
        """As ``MessageForm.value``."""
        written = _WRITTEN.get(column.form)
        return text if written is None else written(column, text)

    def told(self, column: Compared, text: str) -> str | None:
        """As ``MessageForm.told``."""
        if column.form is ValueForm.FLOAT:
            try:
                return float_text(column, text)
            except ValueError:
                # Of another type, before a schema change.
                return text
        # A connector's documents have no spaces.
        return canonical(text) if column.form is ValueForm.JSON else text

    def shown(self, column: Compared, text: str) -> str:
        """As ``MessageForm.shown``."""
        if column.form is ValueForm.MEMBERS:
            return text.replace("\\,", ",")
        if column.form is ValueForm.TEXT:
            return text
        try:
            shown = self.cell(column, text)
        except KeyUnreadable:
            return text
        return f"0x{shown.upper()}" if column.form is ValueForm.BYTES else shown

    def cell(self, column: Compared, text: str) -> str:
        """As ``MessageForm.cell``."""
        read = _READ.get(column.form)
        try:
            return text if read is None else read(column.info, text)
        except (ValueError, OverflowError):
            raise KeyUnreadable.of(column, text) from None


def _commit_ts(source: dict[str, Any]) -> Ts:
    """Ours say it; a connector's have seconds, and within them their place in the binlog."""
    if (known := source.get("commit_ts")) is not None:
        return int(known)
    second_ms = int(source["ts_ms"]) // 1000 * 1000
    # Events are longer than 8 bytes, and a second has room for a gigabyte of them.
    return compose(second_ms) + (int(source["pos"]) >> 3)


def _payload(text: bytes) -> dict[str, Any]:
    # Numbers keep their digits.
    document = json.loads(text, parse_int=str, parse_float=str)
    bare: dict[str, Any] = (
        document["payload"] if document.keys() == {"schema", "payload"} else document
    )
    return bare


def _texts(row: dict[str, Any]) -> TextRow:
    return {name: _text(value) for name, value in row.items()}


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _number(column: Compared, text: str) -> str:
    info = column.info
    if info.data_type != "bit":
        number = int(text)
        return str(number - (1 << 64) if number >= _SIGNED_END else number)
    bits = _bits(info)
    if bits == 1:
        return "true" if int(text) else "false"
    return base64.b64encode(int(text).to_bytes((bits + 7) // 8, "little")).decode()


def _decimal(_: Compared, text: str) -> str:
    unscaled = int(text.replace(".", ""))
    positive = unscaled if unscaled >= 0 else -unscaled - 1
    size = positive.bit_length() // 8 + 1
    return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()


def _time(column: Compared, text: str) -> str | None:
    info = column.info
    if info.data_type == "timestamp":
        return f"{text.replace('0000-00-00', _ZERO).replace(' ', 'T')}Z"
    if info.data_type == "time":
        return str(_micros(text))
    days = _days(text)
    if days is None:
        return None if info.nullable else "0"
    if info.data_type == "date":
        return str(days)
    micros = days * _DAY_S * 1_000_000 + _micros(text.partition(" ")[2])
    return str(micros if (info.scale or 0) > 3 else micros // 1000)


def _days(text: str) -> int | None:
    """Days since 1970 of a date; None if no calendar has it."""
    year, month, day = (int(n) for n in _DATE.match(text).groups())  # type: ignore[union-attr]
    try:
        # Python has no year 0; 400 years later the calendar is the same.
        return (date(year + 400, month, day) - _EPOCH).days - 146_097
    except ValueError:
        return None


def _micros(text: str) -> int:
    sign, hours, minutes, seconds, fraction = _TIME.match(text).groups()  # type: ignore[union-attr]
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    micros = whole * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -micros if sign else micros


def _year(_: Compared, text: str) -> str:
    return "1900" if text == "0000" else str(int(text))


def _bytes(_: Compared, text: str) -> str:
    return base64.b64encode(bytes.fromhex(text)).decode()


def _members(column: Compared, text: str) -> str:
    return text.replace(",", "\\,") if column.info.data_type == "enum" else text


_WRITTEN: dict[ValueForm, Callable[[Compared, str], str | None]] = {
    ValueForm.NUMBER: _number,
    ValueForm.DECIMAL: _decimal,
    ValueForm.FLOAT: float_text,
    ValueForm.TIME: _time,
    ValueForm.YEAR: _year,
    ValueForm.BYTES: _bytes,
    ValueForm.MEMBERS: _members,
    ValueForm.JSON: lambda _, text: canonical(text),
}


def _number_cell(info: ColumnInfo, value: str) -> str:
    if info.data_type == "bit":
        if _bits(info) == 1:
            return str(int(value == "true"))
        return str(int.from_bytes(base64.b64decode(value), "little"))
    number = int(value)
    return str(number + (1 << 64) if number < 0 and "unsigned" in info.column_type else number)


def _decimal_cell(info: ColumnInfo, value: str) -> str:
    unscaled = int.from_bytes(base64.b64decode(value), "big", signed=True)
    scale = info.scale or 0
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{sign}{whole}{'.' if scale else ''}{fraction}"


def _time_cell(info: ColumnInfo, value: str) -> str:
    if info.data_type == "timestamp":
        text = value.removesuffix("Z").replace("T", " ")
        return text.replace(_ZERO, "0000-00-00") if text.startswith(f"{_ZERO} 00:00:00") else text
    number, scale = int(value), info.scale or 0
    if info.data_type == "time":
        whole, micros = divmod(abs(number), 1_000_000)
        hours, minutes, seconds = whole // 3600, whole // 60 % 60, whole % 60
        sign = "-" if number < 0 else ""
        return f"{sign}{hours:02}:{minutes:02}:{seconds:02}{_fraction(micros, scale)}"
    if info.data_type == "date":
        return str(_EPOCH + timedelta(number))
    micros = number if scale > 3 else number * 1000
    whole, micros = divmod(micros, 1_000_000)
    days, seconds = divmod(whole, _DAY_S)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{_EPOCH + timedelta(days)} {clock}{_fraction(micros, scale)}"


def _fraction(micros: int, digits: int) -> str:
    return f".{micros:06}"[: digits + 1] if digits else ""


def _members_cell(info: ColumnInfo, value: str) -> str:
    """The number of an ENUM, or of a SET, as a condition has it."""
    members = [m.replace("''", "'") for m in _MEMBER.findall(info.column_type)]
    if info.data_type == "enum":
        member = value.replace("\\,", ",")
        return str(members.index(member) + 1 if member in members else 0)
    chosen = value.split(",") if value else []
    return str(sum(1 << members.index(m) for m in chosen if m in members))


_READ: dict[ValueForm, Callable[[ColumnInfo, str], str]] = {
    ValueForm.NUMBER: _number_cell,
    ValueForm.DECIMAL: _decimal_cell,
    ValueForm.TIME: _time_cell,
    ValueForm.YEAR: lambda _, value: "0000" if value == "1900" else value,
    ValueForm.TEXT: lambda _, value: value.encode().hex(),
    ValueForm.BYTES: lambda _, value: base64.b64decode(value).hex(),
    ValueForm.MEMBERS: _members_cell,
}


def _bits(info: ColumnInfo) -> int:
    """How many a BIT has."""
    return int(info.column_type.partition("(")[2].partition(")")[0] or 1)
