"""Every statement of a corpus through an upstream server and the changer onto a target.

``python -m tests.sink_mysql_ddl.corpus --upstream mariadb-11.4 --target mysql-8.0 [--generate N]
[FILE.sql …]``; without files the corpus of ``tests.ddl_diff``. After each statement that both took,
``information_schema`` of both servers is compared for all tables that it touched.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cdc.base.errors import TidegateError
from cdc.base.ids import FeedId
from cdc.schema.ddl import read_delivered
from cdc.schema.tokens import DDLNotUnderstood
from sink.mysql.ddl.changer import MysqlChanger
from sink.mysql.ddl.errors import DDLNotTranslatable
from sink.mysql.settings import MysqlSettings
from sink.schema_change import SchemaChange, TableName
from tests import servers
from tests.ddl_diff.compare import ALTERED_AND_RENAMED, Server, differences
from tests.ddl_diff.generate import Generator
from tests.ddl_diff.split import statements
from tests.sink_mysql_ddl.constraints import Constraints, constraints, differing
from tests.sink_mysql_ddl.equivalent import agreed_defaults, equivalent
from tests.sink_mysql_ddl.limits import limit
from tests.sink_mysql_ddl.upstream import Upstream, rejected

# How many rows there were.
_COUNTER = re.compile(r"(?<= )AUTO_INCREMENT=\d+ ")
# MariaDB 11.4.5, of a name beyond ASCII and a change of a column's type.
_LEFT = "the old name that MariaDB leaves behind as it copies and renames a table"
_LOST = "foreign keys that MariaDB loses as it copies and renames a table"
CORPUS = Path(__file__).parents[1] / "ddl_diff/corpus"


@dataclass
class Result:
    """Counts, and each refusal, failure and difference with its statement.

    ``behind`` are statements about tables that a refusal has left behind. ``limits`` are statements
    by the limit of the target that they met.
    """

    accepted: int = 0
    equal: int = 0
    behind: int = 0
    limits: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    different: list[tuple[str, str]] = field(default_factory=list)

    def summary(self) -> str:
        """The last line."""
        return (
            f"accepted {self.accepted}, equal {self.equal}, refused {len(self.refused)}, "
            f"behind a refusal {self.behind}, failed {len(self.failed)}, "
            f"different {len(self.different)}"
        )


class Run:
    """One upstream and one target, which starts with the same empty databases."""

    def __init__(self, one: servers.Database, other: servers.Database) -> None:
        self.upstream = Upstream(one)
        self.target = other
        self.changer = MysqlChanger(
            MysqlSettings.parse(other.uri() + "/"), FeedId("tests", "corpus", 1), 1
        )
        self.changer.take_over()
        self.same_family = one.kind == other.kind
        self.same_server = one.name == other.name
        self.sides = [self._side(one), self._side(other)]
        self._cursors = [(db.connect().cursor(), db.kind) for db in (one, other)]
        self.lost: set[TableName] = set()
        self.result = Result()

    def _side(self, db: Any) -> Server:
        version = (*db.version, 0, 0)[:3]
        return Server(db.connect().cursor(), mariadb=db.kind == "mariadb", version=version)

    def all(self, found: Iterable[str]) -> None:
        """Every statement."""
        for statement in found:
            self.one(statement)

    def generated(self, count: int, seed: int) -> None:
        """So many random statements."""
        made = Generator(seed, mariadb=self.upstream.mariadb)
        self.one("CREATE DATABASE IF NOT EXISTS ddl_two CHARACTER SET latin1")
        for _ in range(count):
            self.one(made.next(self.upstream.catalog))

    def one(self, statement: str) -> None:
        """One statement: upstream, target, comparison."""
        if "sql_log_bin" in statement.lower():
            return
        if rejected(lambda: self.upstream.execute(statement)) is None:
            self.result.accepted += 1
        try:
            changes = self.upstream.changes()
        except DDLNotUnderstood as error:
            self.result.failed.append((statement, str(error)))
            self.upstream.restart()
            return
        for i, change in enumerate(changes):
            # One statement may be several in the binlog, and the upstream shows the last of them.
            self._carry_out(change, last=i == len(changes) - 1)

    def _carry_out(self, change: SchemaChange, *, last: bool) -> None:
        tables = {t for t in change.tables if self._there(change, t)}
        if (tables | self._models(change)) & self.lost:
            self.result.behind += 1
            self._lose(change)
            return
        try:
            self.changer.execute(change)
        except TidegateError as error:
            met = limit(str(error), change.sql, self.target.kind)
            if met is not None:
                self.result.limits[met] += 1
            # Ours refuses by its own knowledge, and never by the target's syntax error.
            ours = isinstance(error, DDLNotTranslatable) and "(1064)" not in str(error)
            if ours or met is not None:
                self.result.refused.append((change.sql, str(error)))
                self._lose(change)
                return
            self.result.failed.append((change.sql, str(error)))
            self._lose(change)
            return
        found = {name: self._compare(name) for name in sorted(tables)} if last else {}
        lines = [line for found_lines in found.values() for line in found_lines]
        copied = self._copied(found) if ALTERED_AND_RENAMED.match(change.sql) else None
        if lines and copied is not None:
            self.result.limits[copied] += 1
            self._lose(change)
        elif lines:
            self.result.different.append((change.sql, "; ".join(lines)))
            self._lose(change)
        else:
            self.result.equal += 1

    def _copied(self, found: dict[TableName, list[str]]) -> str | None:
        """What MariaDB gets wrong as it copies and renames a table, if that is all there is."""
        keys = [": foreign keys: [] != " in line for lines in found.values() for line in lines]
        if self.upstream.mariadb and all(keys):
            return _LOST
        if self.target.kind == "mariadb" and not self.upstream.mariadb:
            a, b = self.sides
            left = {name for name in found if not a.exists(*name) and b.exists(*name)}
            if left and not any(lines for name, lines in found.items() if name not in left):
                return _LEFT
        return None

    def _models(self, change: SchemaChange) -> set[TableName]:
        """The table behind LIKE."""
        try:
            parsed = read_delivered(change.sql, change.session)
        except DDLNotUnderstood:
            return set()
        return {other.table for other in parsed.others} if parsed.like else set()

    def _there(self, change: SchemaChange, name: TableName) -> bool:
        return any(c.table(*name) is not None for c in (change.before, change.after))

    def _compare(self, name: TableName) -> list[str]:
        a, b = (side.table(*name) for side in self.sides)
        if a is None or b is None:
            return []
        if not self.same_family:
            agreed_defaults(a, b)
            a, b = equivalent(a), equivalent(b)
        lines = differences(a, b) + differing(*(self._constraints(i, name) for i in (0, 1)))
        found = [f"{'.'.join(name)}: {line}" for line in lines]
        if not found and self.same_server:
            texts = [
                _COUNTER.sub("", side.create_table(*name) or "") if side.exists(*name) else ""
                for side in self.sides
            ]
            if texts[0] != texts[1]:
                found.append(f"{texts[0]} != {texts[1]}")
        return found

    def _constraints(self, side: int, name: TableName) -> Constraints:
        cursor, kind = self._cursors[side]
        return constraints(cursor, kind, *name)

    def _lose(self, change: SchemaChange) -> None:
        """Take the upstream's tables over where that can be done, else leave them out."""
        for schema in change.schemas:
            self.lost |= {n for n in {*change.before, *change.after} if n[0] == schema}
        for name in change.tables:
            there = self.sides[0].exists(*name)
            quoted = ".".join(f"`{part.replace('`', '``')}`" for part in name)
            self.target.execute("SET foreign_key_checks = 0", f"DROP TABLE IF EXISTS {quoted}")
            self.lost.discard(name)
            if not there:
                continue
            text = self.sides[0].create_table(*name)
            if not self.same_family or text is None or rejected(partial(self._take, name, text)):
                self.lost.add(name)

    def _take(self, name: TableName, text: str) -> None:
        mode = "SET sql_mode = '', foreign_key_checks = 0"
        self.target.execute(mode, text, database=name[0])


def run(
    one: str, other: str, files: Iterable[Path], random: int = 0, seed: int = 1
) -> tuple[Result, Result]:
    """What came of the files, and of so many random statements behind them.

    Both servers are throw-away ones.
    """
    with servers.database(one) as upstream, servers.database(other) as target:
        started = Run(upstream, target)
        started.one("CREATE DATABASE ddl_diff")
        started.one("USE ddl_diff")
        for file in files:
            started.all(statements(file.read_text("utf-8-sig", "replace")))
        written, started.result = started.result, Result()
        started.generated(random, seed)
        return written, started.result


def corpus(kind: str) -> list[Path]:
    """Files of the hand-made corpus for a kind of upstream."""
    return [f for part in ("common", kind) for f in sorted((CORPUS / part).glob("*.sql"))]


def main() -> int:
    """Exit code 0 if nothing differs or fails, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.sink_mysql_ddl.corpus")
    parser.add_argument("--upstream", default="mariadb-11.4")
    parser.add_argument("--target", default="mysql-8.0")
    parser.add_argument("--generate", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.sql")
    chosen = parser.parse_args()
    files = chosen.files or corpus(chosen.upstream.partition("-")[0])
    results = run(chosen.upstream, chosen.target, files, chosen.generate, chosen.seed)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    for whence, result in zip(("files", "random"), results, strict=True):
        for word in ("refused", "failed", "different"):
            for sql, why in getattr(result, word):
                print(f"{word.upper()} {sql}\n    {why}")
        for name, count in sorted(result.limits.items()):
            print(f"LIMIT {name}: {count}")
        print(f"{whence}: {result.summary()}")
    return 1 if any(result.failed or result.different for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
