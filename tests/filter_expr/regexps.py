"""Random patterns of the subset that both engines read alike, sometimes a little outside of it."""

from __future__ import annotations

import random

from tests.filter_expr import rows

LETTERS = "aabbcesS1 .-]^$ßéÉıİiIfﬁkKſσΣςäÄüя中😀\n\t"
_RANGES = ("a-z", "A-Z", "0-9", "a-f", "à-ÿ", "α-ω", "а-я", "一-龥", " -~")
_CLASSES = ("\\s", "\\S", "[:space:]", "[:blank:]", "[:cntrl:]", "\\d", "\\w", "[:alpha:]",
            "[:punct:]", "[:upper:]", "[:lower:]", "[:alnum:]", "[:xdigit:]")  # fmt: skip
_COUNTS = ("*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,1}", "{2,}", "{0,2}", "{1,3}?")
_ODD = ("\\d", "\\w", "\\D", "\\W", "\\b", "(?=a)", "(?i)", "a++", "\\x41", "[a[b]]", "{", "a{,2}",
        "(", ")", "*", "\\p{L}", "[]", "[z-a]", "^*", "a{0}")  # fmt: skip


class Patterns:
    """Makes patterns; the same seed makes the same ones."""

    def __init__(self, rng: random.Random, letters: str = LETTERS) -> None:
        self.rng, self.letters = rng, letters

    def pattern(self) -> str:
        """Words of the rows more often than not, or they would hardly be found."""
        r = self.rng.random()
        if r < 0.2:
            return self.escaped(self.rng.choice(rows.WORDS))
        if r < 0.5:
            word = self.rng.choice(rows.WORDS)
            at = self.rng.randint(0, len(word))
            first, last = self.rng.choice((("", ""), ("^", ""), ("", "$"), ("^", "$")))
            return first + self.escaped(word[:at]) + self.atom(2) + self.escaped(word[at:]) + last
        return self.choice(3)

    def escaped(self, text: str) -> str:
        return "".join("\\" + c if c in "\\.[](){}*+?|^$" else c for c in text)

    def choice(self, depth: int) -> str:
        count = self.rng.choice((1, 1, 1, 2, 2, 3))
        return "|".join(self.joined(depth) for _ in range(count))

    def joined(self, depth: int) -> str:
        parts = []
        for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3, 4))):
            part = self.atom(depth)
            if part not in "^$" and self.rng.random() < 0.3:
                part += self.rng.choice(_COUNTS)
            parts.append(part)
        return "".join(parts)

    def atom(self, depth: int) -> str:
        r = self.rng.random()
        if r < 0.5 or depth <= 0:
            return self.escaped(self.rng.choice(self.letters))
        if r < 0.62:
            return "."
        if r < 0.74:
            return self.bracket()
        if r < 0.8:
            return self.rng.choice(("^", "$", "$", "\\s", "\\S"))
        if r < 0.82:
            return self.rng.choice(_ODD)
        return f"{self.rng.choice(('(', '(?:'))}{self.choice(depth - 1)})"

    def bracket(self) -> str:
        parts = ["[", self.rng.choice(("", "", "^")), self.rng.choice(("", "", "-"))]
        for _ in range(self.rng.randint(1, 3)):
            r = self.rng.random()
            if r < 0.6:
                c = self.rng.choice(self.letters)
                parts.append("\\" + c if c in "\\[]^-" else c)
            else:
                parts.append(self.rng.choice(_RANGES if r < 0.85 else _CLASSES))
        return "".join((*parts, "]"))
