"""Expressions that once differed from a server's, at their smallest, and rows that show it."""

from __future__ import annotations

MARIADB = ("mariadb-10.11", "mariadb-11.4", "mariadb-11.8")
MYSQL_5 = ("mysql-5.6", "mysql-5.7")
RECENT = (*MARIADB, "mysql-8.0", "mysql-9.7")
ALL = (*MYSQL_5, *RECENT)

ROWS = (
    {
        "i8": "2", "i16": "1000", "u8": "127", "u64": "9007199254740993", "d4": "-0.987719550",
        "d3": "0.99999999999999999999",
        "sg": "'0.99999999999999999999'", "su": "'0.99999999999999999999'", "en": "'red'",
        "js": "'{}'", "jt": "'{}'",
    },
    {
        "u8": "127", "u64": "9223372036854775808", "i8": "0", "sg": "'1'", "en": "'GREEN'",
        "i24": "255", "i64": "9223372036854775807", "bi": "256", "du1": "1", "du3": "5.5",
        "dt": "'2026-01-02 10:00:00'",
    },
    {"u64": "18446744073709551615", "i16": "-1", "js": "'[]'", "jt": "'{'"},
    {"d6": "0", "d7": "0", "d8": "0", "du2": "0", "du3": "0", "du4": "0"},
)  # fmt: skip
"""SQL values by column; those that are not named are NULL."""

FOUND = {
    # The whole part of a decimal is an integer.
    "(u64 * FLOOR(d4)) NOT BETWEEN i16 AND 10": RECENT,
    "su < CEIL(0.5)": RECENT,
    # On MariaDB FLOOR of what is unsigned has no more digits, and CEIL may have.
    **{
        f"{name}({column}) - 1 = -1": RECENT
        for name in ("FLOOR", "CEIL")
        for column in ("d6", "d7", "d8", "du2", "du3", "du4")
    },
    "IF(i8, FLOOR(du3), u64) < i64": MARIADB,
    # Before 8, MySQL evaluates both sides of ^ although the left one is NULL.
    "(i16 ^ - -u64) = 1": ALL,
    "(i16 | - -u64) = 1": ALL,
    # MySQL 8 has no difference below zero of what is unsigned on both sides.
    "du1 - bi <=> 0.5": ALL,
    "du1 - du3 < 1": ALL,
    "(du1 * du3 + du1) - u8 < 1": ALL,
    "du1 - ABS(du3) < 1": ALL,
    "du1 - NULLIF(du3, 1) < 1": RECENT,
    "du1 - (u8 & 255) < 1": ALL,
    "du1 - 18446744073709551615 < 1": ALL,
    "-du1 - u8 < 1": ALL,
    "du1 * 1 - du3 < 1": ALL,
    "du1 - FLOOR(du3) < 1": ("mysql-8.0", "mysql-9.7"),
    "du1 - ROUND(du3, 2) < 1": RECENT,
    # Since 5.7, MySQL evaluates a whole list although what is looked for is NULL.
    "ABS(du2) IN (FLOOR(d6), i24 * 18446744073709551615)": RECENT,
    "i16 IN (i64 * i64, 1)": ("mysql-8.0", "mysql-9.7"),
    "d1 NOT IN (1, i24 * 18446744073709551615)": ALL,
    "d1 IN (i24 * 18446744073709551615)": ALL,
    "CASE d1 WHEN 1 THEN 1 WHEN i24 * u64 THEN 2 ELSE 0 END": ("mysql-8.0", "mysql-9.7"),
    # In some versions of MySQL it is unsigned.
    "i8 - YEAR(dt) < 1": (*MARIADB, *MYSQL_5, "mysql-8.0"),
    "YEAR(dt) = 2026": ALL,
    # The text of an enum is its number where text is compared as a decimal.
    "sg BETWEEN en AND i8": RECENT,
    "sg BETWEEN i8 AND en": RECENT,
    "en BETWEEN i8 AND d3": ("mysql-8.0", "mysql-9.7"),
    # The collation of JSON_TYPE stays if it stands first, among ASCII alone.
    "JSON_TYPE(js) < '{}'": RECENT,
    "'{}' > JSON_TYPE(js)": RECENT,
    "JSON_TYPE(js) BETWEEN 'A' AND '{}'": RECENT,
    "JSON_TYPE(js) BETWEEN '' AND '{\u00e9'": RECENT,
    "'{}' BETWEEN 'A' AND JSON_TYPE(js)": RECENT,
    "JSON_TYPE(js) IN ('OBJECT\x01', 'a')": RECENT,
    "JSON_TYPE(js) IN ('OBJECT\x01', '\u00e9')": RECENT,
    "'OBJECT\x01' IN ('x', JSON_TYPE(js))": RECENT,
    "CASE JSON_TYPE(js) WHEN 'OBJECT\x01' THEN 1 ELSE 0 END": RECENT,
}
"""By expression: the servers on which it is compared."""
