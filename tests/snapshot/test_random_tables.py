"""Random tables, keys, borders and changes: what is copied is what the upstream has at the end."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from processor.chunk_reading import ChunkRead, ChunkTask
from tests import seeds
from tests.servers import Database
from tests.sink_mysql.replay import content, same_schema
from tests.snapshot.test_copying import PAIRS, Reading, Way

pytestmark = pytest.mark.real

_TEXTS = ("''", "'a'", "'A'", "'ä'", "'a '", "'ss'", "'ß'", "'b'", "'日'", "'%'", "'_'", "'\\\\'")
# What latin1 has not cannot be compared with it.
_LATIN = tuple(text for text in _TEXTS if text != "'日'")
_COLLATIONS = (
    "utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_unicode_ci", "latin1_swedish_ci", "latin1_bin"
)  # fmt: skip
# Of each type of a key some values that lie close to each other, and the ends.
_TYPES: dict[str, Sequence[str]] = {
    "int": ("-2147483648", "-1", "0", "1", "2", "7", "2147483647"),
    "bigint unsigned": ("0", "1", "3", "9223372036854775808", "18446744073709551615"),
    "decimal(20,5)": ("-0.00001", "0", "0.00001", "1.5", "999999999999999.99999"),
    "varbinary(9)": ("''", "x'00'", "x'0000'", "'a'", "'A'", "x'ff'"),
    "binary(3)": ("''", "x'01'", "'a'", "x'ffffff'"),
    "date": ("'0000-00-00'", "'1000-01-01'", "'2024-02-29'", "'9999-12-31'"),
    "datetime(3)": ("'0000-00-00'", "'2024-05-06 07:08:09.123'", "'2024-05-06 07:08:09.124'"),
    "timestamp(2)": ("'1970-01-02 00:00:00'", "'2024-05-06 07:08:09.12'", "'2037-01-01'"),
    "time(1)": ("'-838:59:59'", "'-00:00:00.1'", "'00:00:00'", "'12:00:00.5'"),
    "year": ("1901", "2000", "2155"),
    "bit(9)": ("b'0'", "b'1'", "b'111111111'"),
    "enum('x','y','z')": ("'x'", "'y'", "'z'"),
    "double": ("-1e300", "0", "0.1", "0.30000000000000004", "1e300"),
} | {
    f"{kind} character set {c.split('_')[0]} collate {c}": _LATIN if "latin1" in c else _TEXTS
    for kind in ("varchar(9)", "char(5)")
    for c in _COLLATIONS
}
_TABLES, _ROWS = 8, 60


class _Table:
    """A random table; ``some`` are statements that change it."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self._rng = rng
        self.name = name
        kinds = rng.sample(list(_TYPES), rng.randint(1, 3))
        self.key = rng.choice(("primary key", "primary key", "unique", "unique", "index", ""))
        # A unique key with NULLs tells nothing apart.
        null = self.key != "primary key" and rng.random() < 0.4
        self._values = [[*_TYPES[k], "null"] if null else _TYPES[k] for k in kinds]
        # The first TIMESTAMP would else have a default of its own.
        columns = [f"k{i} {k} {'null' if null else 'not null'}" for i, k in enumerate(kinds)]
        names = [f"k{i}" for i in range(len(kinds))]
        rng.shuffle(names)
        keys = [f"{self.key} ({', '.join(names)})"] if self.key else []
        rest = ["v varchar(20)", "n int default 3"]
        rng.shuffle(columns)
        self.sql = f"create table {name} ({', '.join([*columns, *rest, *keys])})"
        self._columns = ", ".join(f"k{i}" for i in range(len(kinds)))

    def _row(self) -> str:
        keys = (self._rng.choice(v) for v in self._values)
        return f"({', '.join(keys)}, {self._rng.choice(_TEXTS)})"

    def fill(self) -> str:
        """Rows of which many have the keys of others."""
        rows = ", ".join(self._row() for _ in range(_ROWS))
        return f"insert ignore into {self.name} ({self._columns}, v) values {rows}"

    def some(self) -> str:
        """A change of few rows."""
        rng, at = self._rng, self._rng.randrange(len(self._values))
        is_, other = (rng.choice(self._values[at]) for _ in range(2))
        where = f"k{at} is null" if is_ == "null" else f"k{at} = {is_}"
        into = f"into {self.name} ({self._columns}, v) values {self._row()}"
        return rng.choice(
            (
                f"insert ignore {into}",
                f"replace {into}",
                f"delete from {self.name} where {where} limit {rng.randint(1, 3)}",
                f"update ignore {self.name} set k{at} = {other} where {where} limit 2",
                f"update {self.name} set v = {rng.choice(_TEXTS)}, n = n + 1 where {where} limit 3",
            )
        )


class _Interleaved(Reading):
    """Behind each job of chunks tables are changed."""

    def __init__(self, change: Callable[[], None]) -> None:
        super().__init__()
        self._change = change
        self._one_by_one = threading.Lock()

    def read(
        self, tasks: Sequence[ChunkTask], description: str, timeout_s: float
    ) -> list[ChunkRead]:
        """Read, then change."""
        found = super().read(tasks, description, timeout_s)
        with self._one_by_one:
            self._change()
        return found


@pytest.fixture
def way(
    request: pytest.FixtureRequest,
    database: Callable[..., Database],
    fresh_name: str,
    tmp_path: Path,
) -> Iterator[Way]:
    one, other = map(database, request.param)
    made = Way(one, other, fresh_name, tmp_path / "log")
    yield made
    made.jobs.close()


@pytest.mark.parametrize("way", PAIRS, ids=lambda p: str(p[0]), indirect=True)
def test_random_tables_arrive_as_they_are(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seeds.seed())
    # Files of chunks become segments, or are copied.
    monkeypatch.setattr("cdc.snapshot.settle._LEAST_ADOPTED", rng.choice([1, 4 << 20]))
    tables = [_Table(rng, f"r{i}") for i in range(_TABLES)]
    with way.source.connect(database=way.schema, autocommit=True) as one, one.cursor() as cursor:

        def run(*statements: str) -> None:
            for sql in statements:
                cursor.execute(sql)

        run("set sql_mode = ''", "set time_zone = '+00:00'")
        run(*(f"{word} table {name}" for word in ("truncate",) for name in ("pairs", "names")))
        for table in tables:
            run(table.sql, table.fill())
        same_schema(way.source, way.target, way.schema)
        way.config["force_replicate"] = True
        way.config["snapshot"]["chunk_rows"] = rng.randint(3, 40)
        way.info = way.info.model_copy(update={"config": way.config})
        way.source.execute("delete from numbers where id > 100", database=way.schema)
        changes: list[Any] = []

        def change() -> None:
            for _ in range(rng.randint(1, 4)):
                changes.append(rng.choice(tables).some())
                run(changes[-1])

        way.jobs = _Interleaved(change)
        with way.pulled as pulled:
            report = way.copy()
            change()
            pulled.caught_up()
            way.deliver(report)
    shown = "\n".join([f"SEED={seeds.seed()}", *(t.sql for t in tables), *changes])
    found, wanted = content(way.target, way.schema), content(way.source, way.schema)
    assert found == wanted, shown
    assert changes
