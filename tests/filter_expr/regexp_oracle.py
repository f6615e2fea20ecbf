"""Patterns over texts, answered by a real server and by us.

    python -m tests.filter_expr.regexp_oracle --server mysql-9.7 --patterns 2000 --seed 3

``oracle`` takes conditions through row images; this one asks about patterns alone, so that a
second is enough for many texts.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymysql

from filter.expr import patterns
from filter.expr.collations import encode
from filter.expr.errors import ExpressionNotSupported
from filter.expr.regexp.points import Dialect
from filter.expr.values import Text
from tests import servers
from tests.filter_expr.regexps import LETTERS, Patterns
from tests.filter_expr.rows import quoted

# The share of random patterns that may be refused or given up; one in seven is.
UNSEEN = 0.25
# The server gives up: its stack or its time is over.
_GAVE_UP = frozenset({3698, 3699})
COLLATIONS = {
    "utf8mb4": ("utf8mb4_bin", "utf8mb4_general_ci"),
    "latin1": ("latin1_bin", "latin1_swedish_ci"),
    "binary": ("binary", ""),
}
_LINES = "\n\n\r\v\f\x85\u2028\u2029"


def texts_of(words: Sequence[bytes]) -> Text:
    """Words as the kernels take them."""
    lengths = np.array([len(w) for w in words], np.int64)
    buf = np.frombuffer(b"".join(words) + bytes(16), np.uint8)
    return Text(buf, np.cumsum(lengths) - lengths, lengths)


def ours(pattern: str, words: Sequence[str], dialect: Dialect) -> list[bool]:
    """Our answers; raises ``ExpressionNotSupported``."""
    data = [encode(word, dialect.charset) for word in words]
    if dialect.charset == "binary":
        pattern = pattern.encode().decode("latin-1")
    search = patterns.searching(pattern, dialect)
    return search(texts_of([d for d in data if d is not None])).tolist()


class Asked:
    """A table of words in a real server."""

    def __init__(self, server: Any, schema: str, words: Iterable[str], charset: str) -> None:
        self.icu, self.charset = server.kind == "mysql", charset
        self.asked = 0
        # Patterns that we refused, and those that the server gave up: nothing is shown of them.
        self.refused: list[str] = []
        self.gave_up: list[str] = []
        self.words = [w for w in dict.fromkeys(words) if encode(w, charset) is not None]
        self.connection = server.connect()
        self.cursor = self.connection.cursor()
        self.cursor.execute(f"create database if not exists {schema}")
        self.cursor.execute(f"use {schema}")
        self.cursor.execute("set names utf8mb4 collate utf8mb4_general_ci")
        self.cursor.execute("drop table if exists words")
        type_ = "varbinary(60)" if charset == "binary" else f"varchar(30) character set {charset}"
        self.cursor.execute(f"create table words (i int primary key, t {type_})")
        for k in range(0, len(self.words), 5000):
            part = enumerate(self.words[k : k + 5000], k)
            self.cursor.execute(
                f"insert into words values {', '.join(f'({i}, {quoted(w)})' for i, w in part)}"
            )

    def theirs(self, pattern: str, ignore_case: bool) -> list[bool] | None:
        """The server's answers; None if it gives up."""
        text = "t" if self.charset == "binary" else (
            f"t collate {COLLATIONS[self.charset][ignore_case]}"
        )  # fmt: skip
        try:
            self.cursor.execute(f"select {text} regexp {quoted(pattern)} from words order by i")
        except pymysql.err.Error as error:
            if error.args[0] in _GAVE_UP:
                return None
            raise AssertionError(f"{pattern!r} is taken by us alone: {error}") from error
        answers = [bool(found) for (found,) in self.cursor.fetchall()]
        if self.cursor.warning_count:
            self.cursor.execute("show warnings")
            texts = [text for _, _, text in self.cursor.fetchall()]
            # MariaDB says so in a warning, and that there is no match.
            if any("match limit exceeded" in text for text in texts):
                return None
            raise AssertionError(f"{pattern!r}: {texts}")
        return answers

    def difference(self, pattern: str, ignore_case: bool) -> str:
        """What differs, in words; empty if nothing does, if it is refused or the server gave up.

        The last two are counted; who asks bounds them.
        """
        self.asked += 1
        try:
            mine = ours(pattern, self.words, Dialect(self.icu, self.charset, ignore_case))
        except ExpressionNotSupported:
            self.refused.append(pattern)
            return ""
        theirs = self.theirs(pattern, ignore_case)
        if theirs is None:
            self.gave_up.append(pattern)
            return ""
        if mine == theirs:
            return ""
        at = min((len(w), i) for i, w in enumerate(self.words) if mine[i] != theirs[i])[1]
        return f"{pattern!r} in {self.words[at]!r}, ignoring case {ignore_case}: ours {mine[at]}"


def random_words(rng: random.Random, count: int) -> list[str]:
    """Short words of the letters of patterns, with line ends."""
    letters = LETTERS + _LINES
    found = ["", "\n", "\r\n", "a\r\n", "\r\r\n", "a\n\n", "ss", "ſſ", "K"]
    while len(found) < count:
        length = rng.choice((1, 1, 2, 2, 3, 3, 4, 5, 6, 8))
        found.append("".join(rng.choice(letters) for _ in range(length)))
    return found


@dataclass(frozen=True)
class Found:
    """What so many random patterns have shown."""

    asked: int
    differences: list[str]
    refused: list[str]
    gave_up: list[str]

    @property
    def unseen(self) -> float:
        """The share of patterns about which nothing is shown."""
        return (len(self.refused) + len(self.gave_up)) / max(self.asked, 1)

    def summary(self) -> str:
        """One line."""
        return (
            f"{self.asked} patterns, {len(self.differences)} differences,"
            f" {len(self.refused)} refused by us, {len(self.gave_up)} given up by the server"
        )


def run(server: Any, schema: str, count: int, seed: int, charset: str = "utf8mb4") -> Found:
    """Ask for so many random patterns; the same seed takes the same ones."""
    rng = random.Random(seed)
    made = Patterns(rng, LETTERS + _LINES)
    found = []
    asked = Asked(server, schema, random_words(rng, 400), charset)
    for _ in range(count):
        pattern = made.pattern()
        if encode(pattern, charset) is not None:
            found.append(asked.difference(pattern, charset != "binary" and rng.random() < 0.6))
    asked.cursor.execute(f"drop database {schema}")
    asked.connection.close()
    return Found(asked.asked, [text for text in found if text], asked.refused, asked.gave_up)


def main() -> int:
    """Exit code 0 if nothing differs, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.filter_expr.regexp_oracle")
    parser.add_argument("--server", action="append", help="default: mariadb-11.4 and mysql-8.0")
    parser.add_argument("--patterns", type=int, default=2000, help="in each character set")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    failed = False
    for name in given.server or ["mariadb-11.4", "mysql-8.0"]:
        with servers.database(name) as server:
            for charset in ("utf8mb4", "latin1", *(["binary"] if server.kind != "mysql" else [])):
                found = run(server, "regexp_oracle", given.patterns, given.seed, charset)
                print(f"{name}, {charset}, seed {given.seed}: {found.summary()}",
                      *found.differences[:20], sep="\n  ")  # fmt: skip
                failed |= bool(found.differences) or found.unseen > UNSEEN
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
