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
        if self.cursor.warning_count:
            # MariaDB says "match limit exceeded" in a warning, and that there is no match.
            return None
        return [bool(found) for (found,) in self.cursor.fetchall()]

    def difference(self, pattern: str, ignore_case: bool) -> str:
        """What differs, in words; empty if nothing does, or if it is refused."""
        try:
            mine = ours(pattern, self.words, Dialect(self.icu, self.charset, ignore_case))
        except ExpressionNotSupported:
            return ""
        theirs = self.theirs(pattern, ignore_case)
        if theirs is None or mine == theirs:
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


def run(server: Any, schema: str, count: int, seed: int, charset: str = "utf8mb4") -> list[str]:
    """The differences of so many random patterns."""
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
    return [text for text in found if text]


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
                print(f"{name}, {charset}, seed {given.seed}: {given.patterns} patterns on 400"
                      f" texts, {len(found)} differences", *found[:20], sep="\n  ")  # fmt: skip
                failed |= bool(found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
