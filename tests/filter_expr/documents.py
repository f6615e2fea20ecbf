"""JSON documents of many shapes, and expressions over them, for the oracle."""

from __future__ import annotations

import random
import re

from tests.filter_expr.literals import quoted

COLUMN = "js"
LOOSE = "jt"
"""A column of text in which JSON stands, or something like it; on MariaDB only."""

KEYS = ("a", "b", "c", "ab", "abc", "a b", "x.y", "é", "", "n", "list", "A", "😀", "k1", "_")
SCALARS = (
    "0", "1", "-1", "5", "127", "-128", "255", "32768", "65535", "65536", "2147483648", "-7",
    "9007199254740993", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
    "18446744073709551615", "18446744073709551616", "0.1", "-0.5", "1.0", "1.50", "1e20", "1e-7",
    "9007199254740992.0", "1.5e300", "-1e-300", "-0.0", "0.30000000000000004", "1E5", "2.5e+3",
    "true", "false", "null", "null", "true", '""', '"a"', '"A"', '"abc"', '"abc "', '"1"', '"1.5"',
    '"true"', '"null"', '"é"', '"😀x"', '"\\u00e9"', '"\\ud83d\\ude00"', '"tab\\there"', '"q\\"q"',
    '"b\\\\s"', '"s\\/s"', '"\\u0000"', '"{}"', '"5abc"', '"2026-01-02"', '"Zürich"', '"a%b_c"',
    "[]", "{}", "[ ]", "{ }",
)  # fmt: skip
TYPED = (
    "cast(1.50 as decimal(10,2))", "cast(-0.1 as decimal(65,30))", "cast(5 as decimal(20,0))",
    "cast(0.000 as decimal(9,3))", "cast('2026-01-02' as date)", "cast('10:11:12.5' as time(1))",
    "cast('2026-01-02 03:04:05.678' as datetime(3))", "x'cafe'", "b'101'", "cast(1 as unsigned)",
    "cast(99999999999999999999.5 as decimal(30,5))", "repeat(x'41', 100)", "1.5e0", "true", "null",
    "repeat('x', 513)", "repeat('é', 512)", "repeat('y', 20000)", "repeat('z', 70000)",
    "cast(300 as unsigned)", "cast(70000 as unsigned)", "st_geomfromtext('point(1 2)')",
    "timestamp('2026-01-02')", "cast('-10:00:00' as time)",
    # Columns that stand before it in the row.
    "bi", "vb", "bn", "bl", "ts", "dt6", "tm6", "yr", "d1", "d3", "d4", "u64", "i64", "g",
    "en", "sg",
)  # fmt: skip
WORDS = (
    "a", "A", "abc", "ABC", "abc ", "1", "1.5", "null", "true", "", "é", "É", "😀x", "5abc", "{}",
    "[]", "tab\there", 'q"q', "b\\s", "s/s", "1e20", "0.1", "a%b_c", "1.50", "0", "OBJECT", "NULL",
    "ARRAY", "STRING", "INTEGER", "DOUBLE", "DECIMAL", "BLOB", "BIT", "TIMESTAMP",
    "base64:type15:yv4=",
)  # fmt: skip
NUMBERS = (
    "0", "1", "-1", "5", "1.5", "1.50", "0.1", "0.10", "1e0", "0.1e0", "-0.5", "255", "65535",
    "0.0",
    "9007199254740993", "9007199254740992e0", "9223372036854775807", "9223372036854775808", "1e20",
    "18446744073709551615", "18446744073709551616", "100000000000000000000", "-9223372036854775808",
    "-9223372036854775809", "99999999999999999999.50", "1e-300", "0.30000000000000004", "-1e300",
    "0.3", "1e300", "5.0", "-0.1", "4.9999",
)  # fmt: skip
PIECES = (
    "", "", '"', "\\", ",", "}", "]", "{", "[", ":", " ", "x", "0", "-", ".", "e", "\\u", "\\ud83d",
    "\\q", "\t", "\x01", "1", "null", "é",
)  # fmt: skip
PATTERNS = ("%", "a%", "%b%", "_", "%é%", "{%", "__", "%A")
EXPRESSIONS = (
    "^a",
    "A",
    "b$",
    "^[a-c]+$",
    "é",
    "^.$",
    "[0-9]+",
    "^(null|true|object)$",
    "^$",
    "Å|ß",
)
_COMPARE = ("=", "<>", "<", "<=", ">", ">=", "<=>", "=")


def document(rng: random.Random, depth: int = 3) -> str:
    """A JSON text, with spaces and duplicates of keys."""
    r = rng.random()
    if depth == 0 or r < 0.3:
        return rng.choice(SCALARS)
    space = rng.choice(("", "", " ", "\n\t"))
    count = rng.choice((0, 1, 2, 2, 3, 5, 9))
    items = [document(rng, depth - 1) for _ in range(count)]
    if r < 0.55:
        return "[" + f"{space},".join(items) + space + "]"
    keys = [rng.choice(KEYS) for _ in items]
    named = (
        f'{space}"{_escaped(rng, k)}"{space}:{space}{v}' for k, v in zip(keys, items, strict=True)
    )
    return "{" + f",{space}".join(named) + space + "}"


def _escaped(rng: random.Random, key: str) -> str:
    if key and ord(key[0]) < 0x10000 and rng.random() < 0.05:
        return f"\\u{ord(key[0]):04x}" + key[1:]
    return key


def value(rng: random.Random, mysql: bool) -> str:
    """A document as an SQL expression."""
    text = document(rng)
    if rng.random() < 0.3:
        text = '{"a": ' + text + ', "b": ' + document(rng, 2) + "}"
    r = rng.random()
    if not mysql:
        if r < 0.05:
            return f"concat('{{\"c\":\"', repeat('y', 70000), '\",\"a\":', {quoted(text)}, '}}')"
        if r < 0.08:
            depth = rng.choice((5, 29, 30, 31))
            return quoted('{"a":' * depth + rng.choice(SCALARS) + "}" * depth)
        return quoted(text)
    if r < 0.4:
        members = []
        for key in rng.sample(KEYS, rng.randint(1, 6)):
            plain = f"cast({quoted(document(rng, 1))} as json)"
            members.append(f"{quoted(key)}, {rng.choice((rng.choice(TYPED), plain))}")
        return f"json_object({', '.join(members)})"
    if r < 0.45:
        many = quoted("[" + "1," * 30000 + "2]")
        return f"json_object('list', cast({many} as json), 'a', {rng.choice(TYPED)})"
    if r < 0.5:
        return f"cast({rng.choice(TYPED)} as json)"
    if r < 0.53:
        depth = rng.choice((5, 98))
        return quoted('{"a":' * depth + rng.choice(SCALARS) + "}" * depth)
    return quoted(text)


# To MariaDB these are numbers among others, but alone they are none, and so JSON_TYPE has none.
# And there are keys that begin with white space, about which its functions differ too.
_CUT = re.compile(r"(-|[eE][-+]*)\s*([,\]}]|$)|[{,]\s*\"\s")


def loose(rng: random.Random) -> str:
    """Text that is often no JSON."""
    text = document(rng)
    for _ in range(rng.choice((0, 1, 1, 2))):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(PIECES) + text[at + rng.choice((0, 0, 1)) :]
    if rng.random() < 0.04:
        depth = rng.choice((30, 31, 32, 33))
        text = "[" * depth + "]" * depth
    return quoted("" if _CUT.search(text) else text)


def path(rng: random.Random, mysql: bool) -> str:
    """A path as a literal."""
    text = "$"
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3))):
        if rng.random() < 0.6:
            key = rng.choice((*KEYS, "a", "a", "b"))
            plain = key.isascii() and key.replace("_", "a").isalnum() and rng.random() < 0.8
            text += f".{key}" if plain else f'."{key}"'
        elif mysql and rng.random() < 0.2:
            text += rng.choice(("[last]", "[last-1]", "[last-0]"))
        else:
            text += f"[{rng.choice((0, 0, 0, 1, 1, 2, 5, 30000))}]"
    return quoted(text)


class Documents:
    """Makes conditions and values over documents."""

    def __init__(self, rng: random.Random, mysql: bool) -> None:
        self.rng, self.mysql = rng, mysql

    def pick(self, options: tuple[str, ...]) -> str:
        return self.rng.choice(options)

    def column(self) -> str:
        if not self.mysql and self.rng.random() < 0.5:
            return LOOSE
        return COLUMN

    def path(self) -> str:
        return path(self.rng, self.mysql)

    def extract(self) -> str:
        if self.mysql and self.rng.random() < 0.5:
            return f"{COLUMN}->{self.path()}"
        return f"JSON_EXTRACT({self.column()}, {self.path()})"

    def searching(self, call: str) -> str:
        """A call that may crash MariaDB where text is no JSON."""
        if self.column() == COLUMN:
            return call.format(COLUMN)
        return f"IF(JSON_VALID({LOOSE}), {call.format(LOOSE)}, NULL)"

    def text(self) -> str:
        """Something that is text."""
        r = self.rng.random()
        if r < 0.15:
            return f"JSON_TYPE({self.pick((self.column(), self.extract(), self.extract()))})"
        if r < (0.35 if self.mysql else 0.8):
            return self.searching(f"JSON_VALUE({{}}, {self.path()})")
        if self.mysql and r < 0.75:
            return f"{COLUMN}->>{self.path()}"
        return f"JSON_UNQUOTE({self.extract()})"

    def number(self) -> str:
        """Something that is a number."""
        r = self.rng.random()
        if r < 0.3:
            return self.searching(f"JSON_LENGTH({{}}, {self.path()})")
        if r < 0.5:
            whole = self.searching("JSON_LENGTH({})")
            return self.pick((whole, f"JSON_LENGTH({self.extract()})"))
        if r < 0.6:
            whole = f"JSON_VALID({self.column()})"
            return self.pick((whole, f"JSON_VALID({self.extract()})")) if self.mysql else whole
        paths = ", ".join(self.path() for _ in range(self.rng.choice((1, 1, 2, 3))))
        if r < 0.8 and not self.mysql:
            return self.searching(f"JSON_EXISTS({{}}, {self.path()})")
        mode = self.pick(("'one'", "'all'"))
        return f"JSON_CONTAINS_PATH({self.column()}, {mode}, {paths})"

    def condition(self) -> str:
        """A truth value."""
        r = self.rng.random()
        op = self.pick(_COMPARE)
        word = quoted(self.pick(WORDS))
        if r < 0.12:
            return f"({self.extract()}) IS {self.pick(('', 'NOT '))}NULL"
        if r < 0.22:
            return f"{self.number()} {op} {self.pick(('0', '1', '2', '3', 'i8'))}"
        if r < 0.45 and self.mysql:
            other = self.pick((word, self.pick(NUMBERS), self.pick(NUMBERS), "TRUE", "FALSE"))
            sides = (self.extract(), other) if self.rng.random() < 0.8 else (other, self.extract())
            return f"{sides[0]} {op} {sides[1]}"
        text = self.text()
        if r < 0.5:
            return f"{text} IS {self.pick(('', 'NOT '))}NULL"
        if r < 0.62:
            return f"{text} {op} {self.pick(('sg', 'sb', 'su', 's3', 'vb', 'en', self.text()))}"
        if r < 0.7:
            return f"{text} {op} {self.pick((self.pick(NUMBERS), 'i32', 'g', 'd1'))}"
        if r < 0.74:
            return f"{text} LIKE {quoted(self.pick(PATTERNS))}"
        if r < 0.77:
            return f"{text} REGEXP {quoted(self.pick(EXPRESSIONS))}"
        if r < 0.82:
            others = ", ".join(quoted(self.pick(WORDS)) for _ in range(3))
            return f"{text} {self.pick(('', 'NOT '))}IN ({others})"
        if r < 0.88:
            made = self.pick((f"LENGTH({text})", f"CHAR_LENGTH({text})"))
            return f"{made} {op} {self.pick(('0', '1', '4', '5', '513'))}"
        if r < 0.94:
            made = self.pick(
                (f"LOWER({text})", f"UPPER({text})", f"LEFT({text}, 2)", f"CONCAT({text}, 'x')",
                 f"COALESCE({text}, 'a')", f"IF({text} = 'a', {text}, 'abc')", f"TRIM({text})",
                 f"CONCAT('a', {text}, {text})", f"NULLIF({text}, 'a')")
            )  # fmt: skip
            return f"{made} {op} {word}"
        if r < 0.95:
            return f"{text} COLLATE utf8mb4_general_ci {op} {word}"
        if r < 0.96:
            return f"{text} BETWEEN {word} AND {quoted(self.pick(WORDS))}"
        if r < 0.97:
            return f"CASE {text} WHEN {word} THEN 1 WHEN 'a' THEN 2 END = 1"
        return f"{text} {op} {word}" if r < 0.99 else text
