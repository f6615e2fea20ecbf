"""Codes that a kernel returns for a value that no server writes."""

from __future__ import annotations

from typing import Final

OK: Final = 0
DECIMAL_DIGITS: Final = 1
DECIMAL_PRECISION: Final = 2
TEMPORAL_RANGE: Final = 3
TEXT_INVALID: Final = 4
TEXT_UNMAPPED: Final = 5
CHARSET_UNKNOWN: Final = 6
BIT_LENGTH: Final = 7
JSON_TRUNCATED: Final = 8
JSON_TYPE: Final = 9
JSON_DEPTH: Final = 10
JSON_OPAQUE: Final = 11
OUT_FULL: Final = 12
LENGTH: Final = 13
FRACTION_DIGITS: Final = 14
ZONE_RANGE: Final = 15
NOT_FINITE: Final = 16

MESSAGES: Final[dict[int, str]] = {
    DECIMAL_DIGITS: "a group of decimal digits is out of range",
    DECIMAL_PRECISION: "precision and scale of a decimal are out of range",
    TEMPORAL_RANGE: "a part of a date or time is out of range",
    TEXT_INVALID: "a byte sequence is not valid in the column's character set",
    TEXT_UNMAPPED: "a character has no counterpart in Unicode",
    CHARSET_UNKNOWN: "the character set is not known",
    BIT_LENGTH: "a bit value is longer than 8 bytes",
    JSON_TRUNCATED: "a JSON value points outside of its document",
    JSON_TYPE: "a JSON value has an unknown type",
    JSON_DEPTH: "a JSON document is nested deeper than 100 levels",
    JSON_OPAQUE: "an opaque JSON value is malformed",
    OUT_FULL: "a value is longer than its input allows",
    LENGTH: "a value of fixed length has another length",
    FRACTION_DIGITS: "the number of fractional digits is not in 0..6",
    ZONE_RANGE: "a timestamp lies outside of the time zone's table",
    NOT_FINITE: "a number of a vector is not finite",
}
