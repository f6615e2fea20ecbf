"""Expressions evaluated by a real server and by us, on the same rows, must agree.

    python -m tests.filter_expr.oracle --server mysql-8.0 --pairs 20000 --seed 7

Rows are inserted into a real server and come back out of its binlog; the same expressions are
evaluated over their images and by the server in SQL, and compared row by row: true, false, NULL, or
an error. What we refuse by name is counted, not compared.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymysql

from cdc.rows.batch import RowBatch
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from filter.expr.collations import connection_collation, encode
from filter.expr.errors import (
    ExpressionColumnNotFound,
    ExpressionNotSupported,
    ExpressionParseFailed,
)
from filter.expr.rowfilter import Condition
from tests import servers
from tests.codec.binlog_rows import locate_file
from tests.filter_expr import rows
from tests.filter_expr.generate import Generator

TRUE, FALSE, NULL, FAILED = 1, 0, -1, 2
_NOT_SAID = 3
_AT_ONCE = 16
_PER_TABLE = 40
_EXPRESSIONS_PER_TABLE = 500
# "Out of range" of numbers: what an evaluation may end with.
# The share of random expressions that may be refused; some 30 % are.
REFUSED = 0.40
_RANGE = frozenset({1690, 1264})
# MySQL's regular expressions end after a time, and at the end of a stack.
_GAVE_UP = frozenset({3698, 3699})
_AFTER = 1
# Out of range, not in the character set, too long, wrong; and no JSON (4025 is MariaDB's CHECK).
_NOT_STORED = frozenset({1264, 1366, 1406, 1292, 3140, 3141, 4025})


@dataclass
class Difference:
    """One pair that differs."""

    expression: str
    row: int
    ours: int
    theirs: int
    values: str = ""


@dataclass
class Result:
    """What a run found."""

    pairs: int = 0
    expressions: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    wrongly_taken: list[tuple[str, str]] = field(default_factory=list)
    outcomes: Counter[int] = field(default_factory=Counter)
    gave_up: int = 0

    @property
    def refused_share(self) -> float:
        """The share of random expressions that we refused, about which nothing is shown."""
        refused = sum(self.refused.values()) + self.gave_up
        return refused / max(refused + self.expressions, 1)

    def summary(self) -> str:
        """One line."""
        share = {
            name: round(self.outcomes[code] / max(self.pairs, 1), 3)
            for name, code in (("true", 1), ("false", 0), ("null", -1), ("error", 2))
        }
        return (
            f"{self.pairs} pairs of {self.expressions} expressions compared ({share}),"
            f" {sum(self.refused.values())} expressions refused by us ({self.refused_share:.0%}),"
            f" {self.gave_up} given up by the server,"
            f" {sum(self.rejected.values())} rejected by the server too,"
            f" {len(self.wrongly_taken)} taken by us alone,"
            f" {len(self.differences)} differences"
        )


class Oracle:
    """A server, a table in it with rows, and the rows as its binlog has them."""

    def __init__(self, server: Any, schema: str, rng: random.Random) -> None:
        self.server, self.schema, self.rng = server, schema, rng
        version = tuple(int(n) for n in server.version_text.split("-")[0].split(".")[:3])
        self.session = Session(mariadb=server.kind == "mariadb", version=(*version, 0, 0)[:3])
        # Whether it has the collations of MySQL 8.
        self.mysql = server.kind == "mysql" and version >= (8,)
        self.json = self.session.mariadb or self.mysql
        self.uca = server.kind == "mariadb" and version >= (10, 10)
        self.connection = server.connect()
        self.cursor = self.connection.cursor()
        self.cursor.execute(f"create database if not exists {schema}")
        self.cursor.execute(f"use {schema}")
        self.cursor.execute("set time_zone='+00:00'")
        self.cursor.execute(f"set names utf8mb4 collate {connection_collation(self.session)}")
        self.number = 0
        self.result = Result()

    def fill(self) -> None:
        """A new table, its rows, and where they lie."""
        self._create()
        for i in range(_PER_TABLE):
            while True:
                statement = rows.insert(self.rng, self.name, i, self.mysql, self.json, self.uca)
                try:
                    self.cursor.execute(statement)
                    break
                except pymysql.err.Error as error:
                    if error.args[0] not in _NOT_STORED:
                        raise
        self._locate(_PER_TABLE)

    def _create(self) -> None:
        self.number += 1
        self.name = f"t{self.number}"
        self.cursor.execute(rows.create(self.name, self.mysql, self.json, self.uca))
        self.cursor.execute("flush binary logs")

    def _locate(self, count: int) -> None:
        self.size = count
        self.cursor.execute(f"show create table {self.name}")
        sql = self.cursor.fetchone()[1]
        self.table = parse_create_table(sql, self.session, schema=self.schema)
        key = f"{self.schema}.{self.name}"
        self.located: RowBatch = locate_file(self.server.binlogs()[-1], {key: self.table})
        assert len(self.located.refs) == count

    def fill_rows(self, known: Sequence[Mapping[str, str]]) -> None:
        """The table with rows of these values, SQL expressions by column; all others are NULL."""
        self._create()
        held = {c.lower() for c in self._columns()}
        for i, row in enumerate(known):
            here = {c: v for c, v in row.items() if c in held}
            names, values = ", ".join(("id", *here)), ", ".join((str(i), *here.values()))
            self.cursor.execute(f"insert into {self.name} ({names}) values ({values})")
        self._locate(len(known))

    def _columns(self) -> list[str]:
        self.cursor.execute(f"select * from {self.name} limit 0")
        return [c[0] for c in self.cursor.description]

    def fill_texts(self, words: list[str]) -> None:
        """A new table with these words, a row each, in every text column that can hold them."""
        self.number += 1
        self.name = f"t{self.number}"
        known = rows.texts(self.mysql, self.uca)
        columns = [f"{c} {t} character set {cs} collate {co}" for c, (t, cs, co) in known.items()]
        self.cursor.execute(
            f"create table {self.name} (id int primary key, {', '.join(columns)}) engine=innodb"
        )
        self.cursor.execute("flush binary logs")
        for i, word in enumerate(words):
            held = [
                rows.quoted(word) if encode(word, charset) is not None else "null"
                for _, charset, _ in known.values()
            ]
            self.cursor.execute(f"insert into {self.name} values ({i}, {', '.join(held)})")
        self._locate(len(words))

    def fill_values(self, column: str, values: list[str]) -> None:
        """A new table with these values, SQL expressions, a row each in its only column."""
        self.number += 1
        self.name = f"t{self.number}"
        self.cursor.execute(f"create table {self.name} (id int primary key, {column})")
        self.cursor.execute("flush binary logs")
        for i, value in enumerate(values):
            self.cursor.execute(f"insert into {self.name} values ({i}, {value})")
        self._locate(len(values))

    def ours(self, expression: str) -> np.ndarray | None:
        """Our outcomes, or None if we refuse."""
        try:
            condition = Condition(expression, self.table, self.session, None)
        except ExpressionNotSupported as error:
            self.result.refused[error.message[:60]] += 1
            return None
        except (ExpressionParseFailed, ExpressionColumnNotFound) as error:
            self.result.refused[str(error)[:90]] += 1
            return None
        order = np.arange(len(self.located.refs), dtype=np.int64)
        return condition.states(self.located, order, _AFTER)

    def theirs(self, expressions: list[str]) -> list[np.ndarray | None]:
        """The server's outcomes of each; None for what it rejects as a whole."""
        columns = ", ".join(f"NOT ({e})" for e in expressions)
        try:
            self.cursor.execute(f"select {columns} from {self.name} order by id")
        except pymysql.err.Error as error:
            if len(expressions) > 1:
                half = len(expressions) // 2
                return self.theirs(expressions[:half]) + self.theirs(expressions[half:])
            if error.args[0] in _RANGE:
                return [self._by_row(expressions[0])]
            if error.args[0] in _GAVE_UP:
                self.result.gave_up += 1
                return [np.full(self.size, _NOT_SAID)]
            self.result.rejected[str(error.args)[:90]] += 1
            self.last_error = str(error.args)
            return [None]
        found = self.cursor.fetchall()
        return [np.array([_outcome(r[i]) for r in found]) for i in range(len(expressions))]

    def _by_row(self, expression: str) -> np.ndarray:
        out = []
        for i in range(self.size):
            try:
                self.cursor.execute(f"select NOT ({expression}) from {self.name} where id = {i}")
                out.append(_outcome(self.cursor.fetchone()[0]))
            except pymysql.err.Error as error:
                if error.args[0] not in _RANGE:
                    raise
                out.append(FAILED)
        return np.array(out)

    def check(self, expressions: Iterable[str]) -> None:
        """Compare all of them on all rows."""
        known = [(e, found) for e in expressions if (found := self.ours(e)) is not None]
        for i in range(0, len(known), _AT_ONCE):
            part = known[i : i + _AT_ONCE]
            for (expression, ours), theirs in zip(
                part, self.theirs([e for e, _ in part]), strict=True
            ):
                self._compare(expression, ours, theirs)

    def _compare(self, expression: str, ours: np.ndarray, theirs: np.ndarray | None) -> None:
        if theirs is None:
            self.result.wrongly_taken.append((expression, self.last_error))
            return
        if theirs[0] == _NOT_SAID:
            return
        if not self.mysql and (ours != theirs).any() and self._gave_up(expression):
            self.result.gave_up += 1
            return
        self.result.expressions += 1
        self.result.pairs += len(ours)
        self.result.outcomes.update(theirs.tolist())
        for row in np.flatnonzero(ours != theirs)[:1]:
            self.result.differences.append(
                Difference(expression, int(row), int(ours[row]), int(theirs[row]),
                           self._shown(expression, int(row)))
            )  # fmt: skip

    def _gave_up(self, expression: str) -> bool:
        """Whether MariaDB took a text for no match since its search went on too long."""
        if "REGEXP" not in expression and "RLIKE" not in expression:
            return False
        try:
            self.cursor.execute(f"select {expression} from {self.name}")
        except pymysql.err.Error:
            return False
        self.cursor.execute("show warnings")
        return any("match limit exceeded" in text for _, _, text in self.cursor.fetchall())

    def _shown(self, expression: str, row: int) -> str:
        names = [c.name for c in self.table.columns if c.name in expression]
        if not names:
            return ""
        self.cursor.execute(f"select {', '.join(names)} from {self.name} where id = {row}")
        return ", ".join(f"{n}={v!r}" for n, v in zip(names, self.cursor.fetchone(), strict=True))

    def close(self) -> None:
        """Drop what was made."""
        self.cursor.execute(f"drop database {self.schema}")
        self.connection.close()


def _outcome(inverted: int | None) -> int:
    return NULL if inverted is None else 1 - int(inverted)


def run(server: Any, schema: str, pairs: int, seed: int, json: bool = False) -> Result:
    """Compare at least this many pairs; the same seed takes the same ones.

    ``json`` asks for conditions over documents only.
    """
    rng = random.Random(seed)
    oracle = Oracle(server, schema, rng)
    try:
        while oracle.result.pairs < pairs:
            oracle.fill()
            generator = Generator(rng, oracle.mysql, oracle.json, oracle.uca)
            done = 0
            while oracle.result.pairs < pairs and done < _EXPRESSIONS_PER_TABLE:
                make = generator.condition
                if json and generator.documents is not None:
                    make = generator.documents.condition
                batch = [make() for _ in range(64)]
                oracle.check(batch)
                done += len(batch)
    finally:
        oracle.close()
    return oracle.result


def compare(
    server: Any, schema: str, known: Sequence[Mapping[str, str]], expressions: Sequence[str]
) -> Result:
    """Compare these expressions on these rows (``Oracle.fill_rows``)."""
    oracle = Oracle(server, schema, random.Random(0))
    try:
        oracle.fill_rows(known)
        oracle.check(expressions)
    finally:
        oracle.close()
    return oracle.result


def collate(server: Any, schema: str, seed: int, size: int = 300) -> Result:
    """Compare so many words and random characters of all planes with one another, in every way."""
    rng = random.Random(seed)
    oracle = Oracle(server, schema, rng)
    held = [word for word in rows.WORDS if len(word) <= rows.SHORTEST_COLUMN]
    known = rng.sample(held, min(len(held), size // 2))
    known += [_random_word(rng) for _ in range(size - len(known))]
    words = list(dict.fromkeys(known))
    try:
        oracle.fill_texts(words)
        for column in rows.texts(oracle.mysql, oracle.uca):
            for op in ("=", "<"):
                oracle.check(f"{column} {op} {rows.quoted(w)}" for w in words)
            letters = [w for w in words if len(w) < 3]
            oracle.check(f"{column} LIKE {rows.quoted('%' + w + '%')}" for w in letters)
            oracle.check(f"UPPER({column}) = {rows.quoted(w)}" for w in letters)
            oracle.check(f"CONCAT(LOWER({column}), 'x') > {rows.quoted(w)}" for w in letters)
    finally:
        oracle.close()
    return oracle.result


def scalars(server: Any, schema: str, documents: list[str], literals: list[str]) -> Result:
    """Compare each document, an SQL expression, with each literal by the rules of JSON."""
    oracle = Oracle(server, schema, random.Random(0))
    try:
        oracle.fill_values("js json", documents)
        for op in ("=", "<", ">=", "<=>"):
            oracle.check(f"js->'$' {op} {literal}" for literal in literals)
        oracle.check(f"js->>'$' = {literal}" for literal in literals)
        oracle.check(f"JSON_VALUE(js, '$') > {literal}" for literal in literals)
    finally:
        oracle.close()
    return oracle.result


def _random_word(rng: random.Random) -> str:
    ranges = ((0x20, 0x250), (0x250, 0x3000), (0x300, 0x370), (0x3000, 0xD800), (0xE000, 0xFFFE),
              (0x10000, 0x20000), (0x20000, 0x10FFFE))  # fmt: skip
    return "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randint(1, 2)))


def main() -> int:
    """Exit code 0 if nothing differs, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.filter_expr.oracle")
    parser.add_argument("--server", action="append", help="default: mariadb-11.4 and mysql-8.0")
    parser.add_argument("--pairs", type=int, default=20_000, help="on each server")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--words", type=int, default=0, help="compare words, not expressions")
    parser.add_argument("--json", action="store_true", help="conditions over documents only")
    parser.add_argument("--show", type=int, default=20)
    given = parser.parse_args()
    failed = False
    for name in given.server or ["mariadb-11.4", "mysql-8.0"]:
        with servers.database(name) as server:
            if given.words:
                result = collate(server, "filter_oracle", given.seed, given.words)
            else:
                result = run(server, "filter_oracle", given.pairs, given.seed, given.json)
        print(f"{name}, seed {given.seed}: {result.summary()}", flush=True)
        for d in result.differences[: given.show]:
            print(f"  DIFFERENT {d.expression}\n     ours {d.ours} theirs {d.theirs}: {d.values}")
        for text, error in result.wrongly_taken[: given.show]:
            print(f"  TAKEN {text}\n     {error}")
        for text, count in result.refused.most_common(given.show):
            print(f"  refused {count}: {text}")
        failed |= bool(result.differences or result.wrongly_taken)
        failed |= result.refused_share > REFUSED and not given.words
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
