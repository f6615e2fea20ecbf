"""The table of the oracle: columns of every kind, and values that are easy to get wrong."""

from __future__ import annotations

import random

from tests.filter_expr import documents
from tests.filter_expr.literals import quoted as quoted

NUMBERS = (
    "0", "1", "-1", "2", "5", "7", "10", "100", "127", "-128", "128", "255", "256", "1000", "32767",
    "65535", "2147483647", "-2147483648", "4294967295", "9007199254740993", "9223372036854775807",
    "-9223372036854775808", "9223372036854775808", "18446744073709551615",
)  # fmt: skip
FRACTIONS = (
    "0.5", "-0.5", "1.5", "0.1", "99.99", "-12345678.91", "0.000000001", "123456789.123456789",
    "1234567890123456789.0123456789", "0.3", "2.50", "1e0", "1e3", "1.5e-3", "1e15", "-2.5e1",
)  # fmt: skip
# Characters that weigh something else together, or have no table of weights, or grow in UPPER.
TOGETHER = (
    "l\u00b7l", "ll", "L\u00b7", "\u0627\u0653", "\u0622", "\u0627", "\u0653", "\u09c7\u09be",
    "\u09cb", "\u0cc6\u0cc2\u0cd5", "\u0cc6\u0cc2", "\u0ccb", "\u0fb2\u0f71", "\u0f71\u0f80",
    "\u0fb2", "\u0e44\u0e1b", "\u0e1b\u0e44", "\u0e1b", "\u0eab\u0ec1", "\u0ec1\u0eab",
    "\uaab5\uaa80", "\uaa80\uaab5", "\uaa80", "\U00011131\U00011127", "\U0001112e", "\u1b05\u1b35",
    "\u1b06", "\u2f00", "\u4e00", "\u326f", "\ub098", "\uf900", "\u8c48", "ɐ", "Ⱥx",
)  # fmt: skip
WORDS = (
    "", " ", "a", "A", "abc", "ABC", "aBc ", "abc  ", "abd", "ab", "é", "E", "e", "ß", "ss", "s",
    "Å", "å", "a\u030a", "Ä", "ä", "ö", "o", "ü", "u", "y", "æ", "ae", "ø", "ñ", "n", "I", "i",
    "ı", "İ", "Σ", "σ", "ς", "я", "Я", "中", "中文", "한", "\u1112\u1161\u11ab", "あ", "ア", "ｱ",
    "😀", "😁", "𝒜", "ﬁ", "fi", "ﷺ", "½", "1", "01", "1 ", "1abc", "12", " 12", "-5", "+7", "1.5",
    ".5", "1.", "1e3", "1e", "e1", "0x1", "-0.5abc", "1e400", "nan", "inf", "12345678901234567890",
    "9007199254740993", "9223372036854775807", "1e-50", "0.99999999999999999999", "-1e-300",
    "a\tb", "a\n", "a\x01", "tab\t", "50%", "a_c", "a%c", "a\\b", "\\%", "it''s".replace("''", "'"),
    "Zürich", "zurich", "ZURICH", "straße", "STRASSE", "coöp", "co-op", "coop", "x y",
    "\u0438\u0306", "\u0439", "\u0438", "\u0b92\u0bd7", "\u0b92", "\u0b94", "\u0e40\u0e01",
    "\u0e01\u0e40", "\u0fb2\u0f71\u0f80", "\u0f77", "\u0d4e\u0d15", "\u1100\u1161", "\uac00",
    "\u0301a", "a\u0301", "á", "\u200da", "a\u200d", "O\u0327", "ǆ", "dž", "Ǆ", "ľ", "l",
    *TOGETHER,
)  # fmt: skip
LATIN = (*(w for w in WORDS if all(ord(c) < 256 for c in w)), "€", "ÿ", "Ð", "þ", "Þ")
DATES = (
    "2026-01-02", "2026-01-31", "2025-12-31", "2000-02-29", "1999-12-31", "1970-01-01",
    "9999-12-31", "1000-01-01", "2026-11-21",
)  # fmt: skip
CLOCKS = ("00:00:00", "23:59:59", "10:00:00", "12:34:56", "00:00:01")
TIMES = (*CLOCKS, "-00:00:01", "838:59:59", "-838:59:59", "100:00:00", "-10:30:00")
MICROS = ("", ".5", ".123456", ".000001", ".999999")

INTEGERS = {
    "i8": ("tinyint", -128, 127),
    "u8": ("tinyint unsigned", 0, 255),
    "i16": ("smallint", -32768, 32767),
    "i24": ("mediumint", -(1 << 23), (1 << 23) - 1),
    "i32": ("int", -(1 << 31), (1 << 31) - 1),
    "u32": ("int unsigned", 0, (1 << 32) - 1),
    "i64": ("bigint", -(1 << 63), (1 << 63) - 1),
    "u64": ("bigint unsigned", 0, (1 << 64) - 1),
    "bi": ("bit(10)", 0, 1023),
}
DECIMALS = {
    "d1": (10, 2), "d2": (38, 10), "d3": (65, 30), "d4": (9, 9), "d5": (20, 0),
    # Their whole parts are integers, or just no longer.
    "d6": (18, 0), "d7": (19, 2), "d8": (20, 2),
}  # fmt: skip
UNSIGNED_DECIMALS = {"du1": (12, 2), "du2": (18, 0), "du3": (20, 2), "du4": (21, 2)}
REALS = {"f": "float", "g": "double", "fx": "float(7,2)"}
# Characters that every column below holds.
SHORTEST_COLUMN = 20
TEXTS = {
    "sg": ("varchar(40)", "utf8mb4", "utf8mb4_general_ci"),
    "sg2": ("text", "utf8mb4", "utf8mb4_general_ci"),
    "su": ("varchar(40)", "utf8mb4", "utf8mb4_unicode_ci"),
    "su2": ("char(20)", "utf8mb4", "utf8mb4_unicode_ci"),
    "sb": ("varchar(40)", "utf8mb4", "utf8mb4_bin"),
    "s3": ("varchar(40)", "utf8mb3", "utf8mb3_general_ci"),
    "sl": ("varchar(40)", "latin1", "latin1_swedish_ci"),
    "sl2": ("char(30)", "latin1", "latin1_swedish_ci"),
    "slb": ("varchar(40)", "latin1", "latin1_bin"),
}
MYSQL_TEXTS = {
    "s9": ("varchar(40)", "utf8mb4", "utf8mb4_0900_ai_ci"),
    "s92": ("varchar(40)", "utf8mb4", "utf8mb4_0900_ai_ci"),
    "s0b": ("varchar(40)", "utf8mb4", "utf8mb4_0900_bin"),
}
UCA_TEXTS = {
    "sm": ("varchar(40)", "utf8mb4", "utf8mb4_uca1400_ai_ci"),
    "sm2": ("text", "utf8mb4", "utf8mb4_uca1400_ai_ci"),
    "smn": ("varchar(40)", "utf8mb4", "utf8mb4_uca1400_nopad_ai_ci"),
    "sm3": ("varchar(40)", "utf8mb3", "utf8mb3_uca1400_ai_ci"),
}
BYTES = {"vb": "varbinary(40)", "bn": "binary(6)", "bl": "blob"}
TEMPORAL = {
    "da": "date", "dt": "datetime", "dt6": "datetime(6)", "ts": "timestamp null",
    "ts3": "timestamp(3) null",
}  # fmt: skip
CLOCKED = {"tm": "time", "tm6": "time(6)"}
MEMBERS = ("red", "GREEN", "blue", "é")


def texts(mysql: bool, uca: bool = False) -> dict[str, tuple[str, str, str]]:
    """Text columns of a server: ``mysql`` has 0900 collations, ``uca`` has uca1400 ones."""
    return TEXTS | (MYSQL_TEXTS if mysql else {}) | (UCA_TEXTS if uca else {})


def create(name: str, mysql: bool, json: bool = True, uca: bool = False) -> str:
    """CREATE TABLE of all columns; ``json`` says that the server knows JSON."""
    parts = ["id int primary key"]
    parts += [f"{c} {t}" for c, (t, _, _) in INTEGERS.items()]
    parts += [f"{c} decimal({p},{s})" for c, (p, s) in DECIMALS.items()]
    parts += [f"{c} decimal({p},{s}) unsigned" for c, (p, s) in UNSIGNED_DECIMALS.items()]
    parts += [f"{c} {t}" for c, t in REALS.items()]
    known = texts(mysql, uca)
    parts += [f"{c} {t} character set {cs} collate {co}" for c, (t, cs, co) in known.items()]
    parts += [f"{c} {t}" for c, t in (BYTES | TEMPORAL | CLOCKED).items()]
    parts += [
        "yr year",
        f"en enum({','.join(map(quoted, MEMBERS))}) character set utf8mb4"
        " collate utf8mb4_general_ci",
        f"st set({','.join(map(quoted, MEMBERS))}) character set utf8mb4"
        " collate utf8mb4_general_ci",
    ]
    if json:
        parts += [f"{documents.COLUMN} json"]
        parts += [f"{documents.LOOSE} longtext character set utf8mb4 collate utf8mb4_general_ci"]
    return f"create table {name} ({', '.join(parts)}) engine=innodb"


def _decimal(rng: random.Random, precision: int, scale: int, signed: bool) -> str:
    whole = precision - scale
    digits = rng.choice((0, 1, whole, rng.randint(0, whole)))
    pool = rng.choice(("0123456789", "0123456789", "9"))
    text = "".join(rng.choice(pool) for _ in range(min(digits, whole))) or "0"
    if scale:
        text += "." + "".join(rng.choice("0012345678999") for _ in range(rng.randint(1, scale)))
    return rng.choice(("", "-" if signed else "")) + text


def insert(
    rng: random.Random, name: str, number: int, mysql: bool, json: bool = True, uca: bool = False
) -> str:
    """One row; about an eighth of its values are NULL."""
    values = [str(number)]

    def put(text: str) -> None:
        values.append("null" if rng.random() < 0.12 else text)

    for _, low, high in INTEGERS.values():
        near = [int(n) for n in NUMBERS if low <= int(n) <= high]
        put(str(rng.choice((*near, low, high, rng.randint(low, high)))))
    for columns, signed in ((DECIMALS, True), (UNSIGNED_DECIMALS, False)):
        for precision, scale in columns.values():
            one = "1" if scale < precision else "0.5"
            put(rng.choice(("0", one, _decimal(rng, precision, scale, signed))))
    put(rng.choice(("0", "0.1", "-1.5", "16777216", "3.4e38", "1e-30")))
    put(rng.choice(("0", "0.1", "-1.5", "9007199254740993", "1e308", "-2.5", "0.3", "5")))
    put(rng.choice(("0", "0.1", "-1.5", "99.99", "12345.67")))
    for _, charset, _ in texts(mysql, uca).values():
        pool = WORDS
        if charset == "latin1":
            pool = LATIN
        elif charset == "utf8mb3":
            pool = tuple(w for w in WORDS if all(ord(c) < 0x10000 for c in w))
        word = rng.choice(pool)
        if rng.random() < 0.2:
            word = (word + rng.choice(pool))[:18]
        put(quoted(word))
    put(quoted(rng.choice(WORDS)[:8]))
    put(rng.choice(("'abc'", "'a'", "''", "x'00ff'", "'abc\\0'")))
    put(quoted(rng.choice(WORDS)))
    put(quoted(rng.choice(DATES)))
    put(quoted(f"{rng.choice(DATES)} {rng.choice(CLOCKS)}"))
    put(quoted(f"{rng.choice(DATES)} {rng.choice(CLOCKS)}{rng.choice(MICROS)}"))
    put(quoted(f"{rng.choice(DATES[:3])} {rng.choice(CLOCKS)}"))
    put(quoted(f"{rng.choice(DATES[:3])} {rng.choice(CLOCKS)}{rng.choice(MICROS)[:4]}"))
    put(quoted(rng.choice(TIMES)))
    put(quoted(rng.choice(CLOCKS) + rng.choice(MICROS)))
    put(rng.choice(("2026", "1999", "1901", "2155", "2000")))
    put(quoted(rng.choice(MEMBERS)))
    put(str(rng.randint(0, 15)))
    if json:
        put(documents.value(rng, mysql))
        put(documents.loose(rng))
    return f"insert into {name} values ({', '.join(values)})"
