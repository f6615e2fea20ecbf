"""Pattern text → tree, of what ICU and PCRE2 read alike; everything else is refused by name.

Documented by ICU ("Regular Expressions", user guide) and PCRE2 (pcre2pattern(3)); where the two
left a doubt, real servers were asked: see ``tests/filter_expr/test_regexp.py``.
"""

from __future__ import annotations

import re
import string

from filter.expr.convert import refused
from filter.expr.errors import ExpressionNotSupported
from filter.expr.regexp.points import (
    Dialect,
    Ranges,
    Unsettled,
    complement,
    folded,
    growing,
    in_any_case,
    line_ends,
    named,
    union,
)
from filter.expr.regexp.tree import Chain, Choice, Edge, Joined, Part, Repeat, may_be_empty

MAX_DEPTH = 50
MAX_COUNT = 2_000

_PUNCTUATION = frozenset(string.punctuation + " ")
_CONTROLS = {"t": 9, "n": 10, "f": 12, "r": 13}
_SHORT = {"d": "digit", "w": "word", "s": "space"}
_NAMES = frozenset("alpha digit alnum upper lower punct xdigit space blank cntrl word".split())
_INTERVAL = re.compile(r"\{(\d{1,9})(,(\d{1,9})?)?\}", re.ASCII)
# ICU looks for the :] of a [: beyond the bracket, PCRE2 for .] and =] as well, but inside.
_LIKE_NAMED = re.compile(r"\[(:.*:\]|([.=])[^\]]*\2\])", re.DOTALL)
_NAMED = re.compile(r"\[:([a-z]+):\]")


def parse(pattern: str, dialect: Dialect, at: int) -> Part:
    """The tree of a pattern; for bytes, each character of ``pattern`` is one.

    Raises ``ExpressionNotSupported``; ``at`` is where the pattern stands in the expression.
    """
    if not pattern and dialect.icu:
        raise refused("an empty pattern is an error on MySQL", at, "write a pattern")
    reader = _Pattern(pattern, dialect, at)
    found = reader.choice(0)
    if reader.at < len(pattern):
        raise reader.refuse("a ) without its (", "write \\) for the character")
    return found


class _Pattern:
    def __init__(self, text: str, dialect: Dialect, offset: int) -> None:
        self.text, self.dialect, self.offset, self.at = text, dialect, offset, 0

    def refuse(self, what: str, hint: str) -> ExpressionNotSupported:
        return refused(f"{what}, at character {self.at + 1} of the pattern", self.offset, hint)

    def peek(self, n: int = 1) -> str:
        return self.text[self.at : self.at + n]

    def take(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def choice(self, depth: int) -> Part:
        if depth > MAX_DEPTH:
            raise self.refuse(f"groups deeper than {MAX_DEPTH}", "take parentheses away")
        parts = [self.joined(depth)]
        while self.take("|"):
            parts.append(self.joined(depth))
        return Choice(tuple(parts)) if len(parts) > 1 else parts[0]

    def joined(self, depth: int) -> Part:
        parts: list[Part] = []
        letters: list[int] = []

        def flush() -> None:
            if letters:
                parts.append(self.letters(letters))
                letters.clear()

        while self.at < len(self.text) and self.peek() not in "|)":
            point = self.literal()
            if point is None and self.peek() == "[":
                flush()
                found = self.bracket()
                point = self._alone(found)
                if point is None:
                    parts.append(self.repeated(Chain((found,))))
                    continue
            if point is None:
                flush()
                parts.append(self.repeated(self.special(depth)))
            elif self.peek() and self.peek() in "*+?{":
                # Only the last letter is repeated; ICU folds the ones before it without it.
                flush()
                parts.append(self.repeated(self.letters([point])))
            else:
                letters.append(point)
        flush()
        return parts[0] if len(parts) == 1 else Joined(tuple(parts))

    def _alone(self, ranges: Ranges) -> int | None:
        """The character of a set that ICU takes for a letter, and folds as one: its only one."""
        alone = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
        return ranges[0][0] if alone and self.dialect.icu and self.dialect.ignore_case else None

    def literal(self) -> int | None:
        """The next character if it stands for itself."""
        c = self.peek()
        if c == "\\":
            return self.escaped()
        if c in "[](){}.^$*+?":
            return None
        self.at += 1
        return ord(c)

    def escaped(self) -> int | None:
        """The character of ``\\.`` and ``\\t``; None for classes, all others are refused."""
        c = self.peek(2)[1:]
        if c and c in "dDwWsS":
            return None
        if c in _PUNCTUATION or c in _CONTROLS:
            self.at += 2
            return _CONTROLS.get(c, ord(c))
        raise self.refuse(
            f"\\{c} in a pattern" if c else "a \\ at the end of a pattern",
            "only \\s, \\S, \\t, \\n, \\r, \\f and escaped punctuation mean the same everywhere",
        )

    def letters(self, points: list[int]) -> Chain:
        sets: list[Ranges] = [((p, p),) for p in points]
        if not self.dialect.ignore_case:
            return Chain(tuple(sets))
        try:
            if not self.dialect.icu:
                return Chain(tuple(in_any_case(s) for s in sets))
            # ICU folds letters that stand together in full, so that ß is found by ss.
            all_of = folded(points)
            sets = [in_any_case(((p, p),)) for p in all_of]
        except Unsettled as error:
            raise self._unsettled(error) from error
        jumps = [
            (i, i + n, found)
            for i in range(len(all_of))
            for n in (2, 3)
            if (found := growing().get(tuple(all_of[i : i + n]))) and i + n <= len(all_of)
        ]
        return Chain(tuple(sets), tuple(jumps))

    def _unsettled(self, error: Unsettled) -> ExpressionNotSupported:
        return self.refuse(
            f"the cases of U+{error.point:04X}, which depend on the server's version of Unicode",
            "write COLLATE with a _bin collation",
        )

    def special(self, depth: int) -> Part:
        c = self.peek()
        if c == "\\":
            return Chain((self.short_class(),))
        if self.take("."):
            return Chain((complement(line_ends(self.dialect)),))
        if c and c in "^$":
            self.at += 1
            if self.peek() and self.peek() in "*+?{":
                raise self.refuse(f"a repeated {c}", "leave the repetition out")
            return Edge(c == "$")
        if c == "(":
            return self.group(depth)
        if c in "*+?":
            raise self.refuse(f"nothing to repeat before {c}", f"write \\{c} for the character")
        raise self.refuse(f"a {c} alone", f"write \\{c} for the character")

    def group(self, depth: int) -> Part:
        if self.peek(2) == "(?" and self.peek(3) != "(?:":
            raise self.refuse(f"{self.peek(4)}…", "only ( ) and (?: ) are supported groups")
        self.at += 3 if self.peek(3) == "(?:" else 1
        found = self.choice(depth + 1)
        if not self.take(")"):
            raise self.refuse("a ( without its )", "write \\( for the character")
        return found

    def repeated(self, part: Part) -> Part:
        c = self.peek()
        if not c or c not in "*+?{":
            return part
        if c == "{":
            found = _INTERVAL.match(self.text, self.at)
            if found is None:
                raise self.refuse("a { that begins no {2}, {2,} or {2,5}", "write \\{")
            least = int(found[1])
            most = (int(found[3]) if found[3] else None) if found[2] else least
            if max(least, most or 0) > MAX_COUNT or (most is not None and most < least):
                raise self.refuse(f"{found[0]}", f"count from less to more, up to {MAX_COUNT}")
            if most == 0:
                # PCRE2 takes an anchor in what is never there, as in (a|^b){0}c, for the pattern's.
                raise self.refuse(f"{found[0]}", "leave out what is not to be there")
            self.at = found.end()
        else:
            self.at += 1
            least, most = int(c == "+"), 1 if c == "?" else None
        # Greedy or not, there is a match or there is none.
        lazy = self.take("?")
        if lazy and most is None and self.dialect.icu and may_be_empty(part):
            raise self.refuse("a lazy repetition of what may be empty, which never ends on MySQL",
                              "leave its ? out")  # fmt: skip
        if self.peek() and self.peek() in "*+?{":
            raise self.refuse(f"{self.peek()} behind a repetition", "write a group (?: )")
        return Repeat(part, least, most)

    def short_class(self) -> Ranges:
        c = self.peek(2)[1]
        found = named(_SHORT[c.lower()], self.dialect)
        if found is None:
            raise self._differs(f"\\{c}", "[0-9] or [^0-9]" if c in "dD" else "[0-9A-Za-z_]")
        self.at += 2
        return complement(found) if c.isupper() else found

    def _differs(self, name: str, instead: str) -> ExpressionNotSupported:
        return self.refuse(
            f"{name}, which depends on the server's version of Unicode", f"write {instead}"
        )

    def bracket(self) -> Ranges:
        """``[…]``: characters, ranges, ``[:name:]`` and ``\\s``."""
        if _LIKE_NAMED.match(self.text, self.at):
            raise self.refuse(f"{self.peek(2)}… outside of brackets", f"write [\\{self.peek(2)[1]}")
        self.at += 1
        negated = self.take("^")
        singles: list[tuple[int, int]] = []
        classes: list[tuple[int, int]] = []
        first, after_range = True, False
        while not self.take("]"):
            if self.peek(2) in ("--", "&&", "&-", "&[", "-["):
                raise self.refuse(f"{self.peek(2)} in brackets", "escape each of the two")
            if self.peek() == "-" and not (first or after_range or self.peek(2) == "-]"):
                raise self.refuse("a - that is neither of a range nor at an end", "write \\-")
            low = self.member(classes)
            after_range = False
            if low is not None:
                high = low
                if self.peek() == "-" and self.peek(2) not in ("-]", "--"):
                    self.at += 1
                    after_range = True
                    found = self.member(None)
                    if found is None or found < low:
                        raise self.refuse("a range that ends before it begins", "swap its ends")
                    high = found
                singles.append((low, high))
            first = False
        if first:
            raise self.refuse("empty brackets", "write \\] for the character")
        known = union(singles)
        if self.dialect.ignore_case:
            try:
                known = in_any_case(known)
            except Unsettled as error:
                raise self._unsettled(error) from error
        known = union([*known, *classes])
        return complement(known) if negated else known

    def member(self, classes: list[tuple[int, int]] | None) -> int | None:
        """The next character in brackets; a class goes to ``classes``, if it may stand here."""
        c = self.peek()
        if not c:
            raise self.refuse("a [ without its ]", "write \\[ for the character")
        if c == "\\":
            found = self.escaped()
            if found is None:
                if classes is None:
                    raise self.refuse("a class as the end of a range", "write \\-")
                classes += self.short_class()
            return found
        if c == "[":
            name = _NAMED.match(self.text, self.at)
            if name is None or classes is None:
                raise self.refuse("a [ in brackets", "write \\[ for the character")
            if name[1] not in _NAMES:
                raise self.refuse(f"{name[0]}, which is no class of both", "write its characters")
            ranges = named(name[1], self.dialect)
            if ranges is None:
                raise self._differs(name[0], "the characters that are meant")
            self.at = name.end()
            classes += ranges
            return None
        if c == "]":
            raise self.refuse("a ] as the end of a range", "write \\]")
        self.at += 1
        return ord(c)
