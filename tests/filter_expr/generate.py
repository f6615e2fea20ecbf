"""Random expressions over the oracle's table: mostly well typed, sometimes wild."""

from __future__ import annotations

import random

from tests.filter_expr import rows
from tests.filter_expr.documents import Documents
from tests.filter_expr.regexps import Patterns
from tests.filter_expr.rows import quoted

_COMPARE = ("=", "<>", "!=", "<", "<=", ">", ">=", "<=>")


class Generator:
    """Makes conditions; the same seed makes the same ones."""

    def __init__(
        self, rng: random.Random, mysql: bool, json: bool = True, uca: bool = False
    ) -> None:
        self.rng, self.mysql, self.uca = rng, mysql, uca
        self.documents = Documents(rng, mysql) if json else None
        self.texts = tuple(rows.texts(mysql, uca))
        self.patterns = Patterns(rng)

    def pick(self, options: tuple[str, ...] | list[str]) -> str:
        return self.rng.choice(options)

    def condition(self, depth: int = 3) -> str:
        """A truth value."""
        r = self.rng.random()
        if depth > 0 and r < 0.34:
            return self.joined(depth)
        if r > 0.92 and self.documents is not None:
            return self.documents.condition()
        if r < 0.42:
            return self.is_(depth)
        if r < 0.50:
            return self.scalar(depth - 1)
        return self.comparison(depth)

    def joined(self, depth: int) -> str:
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        word = self.pick(("AND", "OR", "XOR", "&&", "||", "AND", "OR"))
        joined = f"{a} {word} {b}"
        r = self.rng.random()
        if r < 0.25:
            return f"NOT ({joined})"
        if r < 0.35:
            return f"NOT {a} {word} {b}"
        if r < 0.45:
            return f"!({a}) {word} {b}"
        return f"({joined})" if r < 0.8 else joined

    def is_(self, depth: int) -> str:
        what = self.pick(("NULL", "TRUE", "FALSE", "UNKNOWN", "NULL"))
        no = self.pick(("", "NOT "))
        inside = self.scalar(1) if what == "NULL" else self.condition(depth - 1)
        return f"({inside}) IS {no}{what}"

    def comparison(self, depth: int) -> str:
        if self.rng.random() < 0.06:
            return self.regexp()
        kind = self.pick(("number", "number", "text", "text", "date", "time", "mixed", "enum"))
        no = self.pick(("", "", "NOT "))
        shape = self.rng.random()
        a = self.of(kind, depth - 1)
        if kind in ("date", "time") and self.rng.random() < 0.9:
            a = self.pick(tuple(rows.TEMPORAL if kind == "date" else rows.CLOCKED))
        if kind == "text" and shape > 0.72:
            return f"{self.text_column()} {no}LIKE {self.pattern()}"
        if shape < 0.62 or (kind == "time" and shape < 0.95):
            return f"{a} {self.pick(_COMPARE)} {self.of(kind, depth - 1)}"
        if shape < 0.8:
            return f"{a} {no}BETWEEN {self.of(kind, 0)} AND {self.of(kind, 0)}"
        count = self.rng.choice((1, 2, 3, 4, 9))
        items = [self.of(kind, 0) for _ in range(count)]
        if self.rng.random() < 0.1:
            items.append("NULL")
        return f"{a} {no}IN ({', '.join(items)})"

    def of(self, kind: str, depth: int) -> str:
        if kind == "number":
            return self.number(depth)
        if kind == "text":
            return self.text(depth)
        if kind == "date":
            return self.date(depth)
        if kind == "time":
            return self.pick((*rows.CLOCKED, quoted(self.pick(rows.TIMES)), self.clock()))
        if kind == "enum":
            members = quoted(self.pick((*rows.MEMBERS, "RED", "Blue", "none")))
            return self.pick(("en", "en", members, str(self.rng.randint(0, 5)), "st & 3"))
        return self.scalar(depth)

    def scalar(self, depth: int) -> str:
        kind = self.pick(("number", "number", "text", "date", "enum"))
        return self.pick(("NULL", "TRUE", "FALSE")) if self.rng.random() < 0.04 else (
            self.of(kind, depth)
        )  # fmt: skip

    def number_column(self) -> str:
        decimals = (*rows.DECIMALS, *rows.UNSIGNED_DECIMALS)
        names = (*rows.INTEGERS, *rows.INTEGERS, *decimals, *rows.REALS)
        return self.pick(names)

    def number_literal(self) -> str:
        r = self.rng.random()
        if r < 0.05:
            return self.pick(("0x41", "b'101'", "0xFF", "TRUE", "FALSE"))
        return self.pick(rows.NUMBERS if r < 0.65 else rows.FRACTIONS)

    def number(self, depth: int) -> str:
        r = self.rng.random()
        if depth <= 0 or r < 0.6:
            return self.number_column() if self.rng.random() < 0.6 else self.number_literal()
        a, b = self.number(depth - 1), self.number(depth - 1)
        if r < 0.78:
            op = self.pick(("+", "-", "*", "/", "%", "DIV", "MOD", "&", "|", "^", "<<", ">>"))
            text = f"{a} {op} {b}"
            return text if self.rng.random() < 0.3 else f"({text})"
        if r < 0.84:
            return f"{self.pick(('-', '~', '- -', '+'))}{self.number_column()}"
        if r < 0.9:
            name = self.pick(("ABS", "SIGN"))
            return f"{name}({a})"
        if r < 0.92:
            name = self.pick(("FLOOR", "CEIL", "ROUND", "FLOOR"))
            places = self.pick(("", ", 0", ", 1", ", 2", ", 12")) if name == "ROUND" else ""
            if name == "ROUND" and self.rng.random() < 0.4:
                name, places = "TRUNCATE", self.pick((", 0", ", 1", ", 10"))
            return f"{name}({a}{places})"
        if r < 0.925:
            return f"CAST({self.pick(tuple(rows.INTEGERS))} AS {self.pick(('SIGNED', 'UNSIGNED'))})"
        if r < 0.94:
            name = self.pick(("LENGTH", "CHAR_LENGTH"))
            return f"{name}({self.text(depth - 1)})"
        if r < 0.945:
            name = self.pick(("TO_DAYS", "WEEKDAY", "DAYOFWEEK", "DAYOFYEAR"))
            return f"{name}({self.date(0)})"
        if r < 0.95:
            return f"DATEDIFF({self.date(0)}, {self.date(0)})"
        if r < 0.965:
            part = self.pick(("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "QUARTER",
                              "MICROSECOND", "DAYOFMONTH"))  # fmt: skip
            return f"{part}({self.pick(tuple(rows.TEMPORAL))})"
        return self.choice(a, b, depth)

    def choice(self, a: str, b: str, depth: int) -> str:
        c = self.comparison(depth - 1)
        return self.pick(
            (
                f"IF({c}, {a}, {b})",
                f"IFNULL({a}, {b})",
                f"COALESCE({a}, {b}, {a})",
                f"NULLIF({a}, {b})",
                f"CASE WHEN {c} THEN {a} ELSE {b} END",
                f"CASE WHEN {c} THEN {a} END",
                f"CASE {a} WHEN {b} THEN {a} WHEN 1 THEN {b} ELSE {a} END",
            )
        )

    def text_column(self) -> str:
        return self.pick((*self.texts, *self.texts, *rows.BYTES, "en"))

    def word(self) -> str:
        word = self.pick(rows.WORDS)
        r = self.rng.random()
        if r < 0.1:
            word = word.upper()
        elif r < 0.2:
            word += self.pick((" ", "a", "\t", "  ", "é"))
        elif r < 0.3:
            word = self.pick(rows.WORDS) + word
        return quoted(word)

    def text(self, depth: int) -> str:
        r = self.rng.random()
        if depth <= 0 or r < 0.8:
            if self.rng.random() < 0.05:
                return self.pick(("x'616263'", "x'C3A9'", "0x61", "1", "1.5", "i32"))
            return self.text_column() if self.rng.random() < 0.5 else self.word()
        if r < 0.84:
            return f"{self.text_column()} COLLATE {self.collation()}"
        if r < 0.93:
            return self.made(depth)
        a = self.text_column()
        return self.choice(a, self.pick((a, self.word(), self.word())), depth)

    def made(self, depth: int) -> str:
        """Text made of text."""
        a = self.pick((self.text_column(), self.text_column(), self.text(depth - 1)))
        n = self.pick(("0", "1", "2", "3", "-1", "-2", "100", "i8", "u64"))
        b = self.word()
        return self.pick(
            (
                f"LEFT({a}, {n})", f"RIGHT({a}, {n})", f"SUBSTRING({a}, {n})",
                f"SUBSTRING({a}, {n}, {self.pick(('1', '2', '-1', 'u8'))})", f"MID({a}, 2, 2)",
                f"TRIM({a})", f"LTRIM({a})", f"RTRIM({a})", f"LOWER({a})", f"UPPER({a})",
                f"CONCAT({a}, {b})", f"CONCAT({b}, {a}, {a})", f"BINARY {self.text_column()}",
            )
        )  # fmt: skip

    def collation(self) -> str:
        names = ["utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "latin1_bin"]
        if self.uca:
            names += ["utf8mb4_uca1400_ai_ci", "uca1400_ai_ci", "uca1400_nopad_ai_ci"]
        return self.pick([*names, "utf8mb4_0900_ai_ci"] if self.mysql else names)

    def pattern(self) -> str:
        parts = []
        for _ in range(self.rng.randint(1, 4)):
            parts.append(self.pick(("%", "_", "%", self.pick(rows.WORDS), self.pick(rows.WORDS)[:1],
                                    "\\%", "\\_", "|%", "\\\\")))  # fmt: skip
        text = quoted("".join(parts))
        return text + (" ESCAPE '|'" if self.rng.random() < 0.15 else "")

    def regexp(self) -> str:
        text = self.text_column()
        r = self.rng.random()
        if r < 0.1:
            text = self.made(1)
        elif r < 0.2:
            text += f" COLLATE {self.collation()}"
        pattern = quoted(self.patterns.pattern())
        if self.mysql and r > 0.8:
            flags = self.pick(("", ", 'c'", ", 'i'", ", 'ci'", ", 'm'", ", NULL"))
            return f"REGEXP_LIKE({text}, {pattern}{flags})"
        if r > 0.77:
            pattern = self.pick(("NULL", pattern + " COLLATE utf8mb4_bin", "''"))
        no = self.pick(("", "", "NOT "))
        return f"{text} {no}{self.pick(('REGEXP', 'RLIKE'))} {pattern}"

    def clock(self) -> str:
        return f"TIME {quoted(self.pick(rows.CLOCKS))}"

    def date(self, depth: int) -> str:
        r = self.rng.random()
        if r < 0.55:
            return self.pick(tuple(rows.TEMPORAL))
        day = self.pick(rows.DATES)
        moment = f"{day} {self.pick(rows.CLOCKS)}{self.pick(('', '.5', '.123456'))}"
        if r < 0.9:
            loose = f"{int(day[:4])}-{int(day[5:7])}-{int(day[8:])}"
            return quoted(self.pick((day, moment, moment, loose)))
        if r < 0.95:
            return self.pick((f"DATE '{day}'", f"TIMESTAMP '{moment}'"))
        return f"DATE({self.pick(tuple(rows.TEMPORAL))})"
