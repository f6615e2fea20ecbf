"""Tables without a key: rows of one content are told by their number only."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdc.base.errors import TidegateError
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.snapshot.balance import Balance, Leaving
from cdc.snapshot.moment import Moment
from owner.copyable import _check_keys, _check_tables
from processor import keyless, row_copy
from processor.chunk_reading import ChunkRead
from tests import seeds
from tests.servers import Database
from tests.sink_mysql.replay import content, same_schema
from tests.snapshot.test_copying import PAIRS, Way
from tests.threads import running

LOOSE = (
    "create table loose (a int, b varchar(40) collate utf8mb4_general_ci, c double,"
    " at timestamp(3) null, v blob, unique key (a, b))"
)
ROWS = 2000
_WRITERS = 3
_DELETED = 0.3
# More than leave a moment of some 0.3 s without one.
_BUSY_PER_S = 20


def _fill(way: Way) -> None:
    """Each content several times, NULLs among them, and texts that a collation takes for one."""
    values = ", ".join(
        f"(null, {('null', repr('Ä'), repr('a'), repr('A'))[i % 4]}, {i % 7} / 3,"
        f" '2024-05-06 07:08:09.5', repeat('x', {i % 5}))"
        for i in range(ROWS)
    )
    way.source.execute(LOOSE, f"insert into loose values {values}", database=way.schema)
    same_schema(way.source, way.target, way.schema)
    way.config["force_replicate"] = True
    way.info = way.info.model_copy(update={"config": way.config})


@pytest.fixture
def way(
    request: pytest.FixtureRequest,
    database: Callable[..., Database],
    fresh_name: str,
    tmp_path: Path,
) -> Iterator[Way]:
    """Return a way with a table that has no key, and only a UNIQUE one with NULLs."""
    one, other = getattr(request, "param", PAIRS[0])
    made = Way(database(one), database(other), fresh_name, tmp_path / "log")
    _fill(made)
    yield made
    made.jobs.close()


_CHANGES = (
    "delete from loose where b is null limit 3",
    "insert into loose values (null, 'a', 1, null, 'new'), (null, 'a', 1, null, 'new')",
    "update loose set v = 'moved' where b = 'ä' limit 5",
    "update loose set v = 'back' where v = 'moved' limit 2",
    "delete from loose where v = 'new' limit 1",
    "insert into loose select * from loose limit 4",
)


def _changed_behind(way: Way, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have rows change right behind the reading of the table."""
    right, read = keyless.read_still, []

    def reading(*args: Any, **named: Any) -> tuple[int, ChunkRead]:
        found = right(*args, **named)
        way.source.execute(*_CHANGES, database=way.schema)
        read.append(found[1].rows)
        return found

    monkeypatch.setattr(row_copy, "read_still", reading)
    return read


@pytest.mark.real
@pytest.mark.parametrize("way", PAIRS, ids=lambda p: str(p[0]), indirect=True)
def test_what_changes_behind_the_reading_is_balanced(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = _changed_behind(way, monkeypatch)
    with way.pulled as pulled:
        report = way.copy()
        assert read == [ROWS]
        way.source.execute(*_CHANGES, database=way.schema)
        pulled.caught_up()
        way.deliver(report)
    assert content(way.target, way.schema) == content(way.source, way.schema)


@pytest.mark.real
def test_control_what_changes_is_not_balanced(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    _changed_behind(way, monkeypatch)
    monkeypatch.setattr("cdc.snapshot.settle.balance", lambda *_: Balance.none())
    with way.pulled as pulled:
        report = way.copy()
        pulled.caught_up()
        way.deliver(report)
    found, wanted = content(way.target, way.schema), content(way.source, way.schema)
    assert found.pop("loose") != wanted.pop("loose")
    assert found == wanted


def _committed_at_first(way: Way, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have rows committed when the first reading is about to begin, so that it sees them."""
    right, begun = keyless.open_connection, list[int]()

    def opened(*args: Any) -> Any:
        if not begun:
            way.source.execute(_CHANGES[1], database=way.schema)
        begun.append(1)
        return right(*args)

    monkeypatch.setattr(keyless, "open_connection", opened)
    return begun


@pytest.mark.real
@pytest.mark.parametrize("way", PAIRS, ids=lambda p: str(p[0]), indirect=True)
def test_it_is_read_at_a_moment_that_is_known(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, stop = _committed_at_first(way, monkeypatch), threading.Event()

    def change() -> None:
        rng, made = random.Random(seeds.seed()), 0
        with way.source.connect(database=way.schema, autocommit=True) as one:
            # On a busy machine a reading takes long to begin, and needs a moment without changes.
            while not stop.wait(0.5 + rng.random()):
                one.cursor().execute(_CHANGES[made % len(_CHANGES)])
                made += 1

    thread = threading.Thread(target=change)
    with way.pulled as pulled:
        thread.start()
        try:
            report = way.copy()
        finally:
            stop.set()
            thread.join()
        pulled.caught_up()
        way.deliver(report)
    assert begun
    assert content(way.target, way.schema) == content(way.source, way.schema)


@contextmanager
def _busy(way: Way) -> Iterator[Counter[int]]:
    """Writers that change the table all the time; how often each did."""
    made, stop = Counter[int](), threading.Event()

    def change(writer: int) -> None:
        rng = random.Random(seeds.seed() + writer)
        with way.source.connect(database=way.schema, autocommit=True) as one:
            while not stop.is_set():
                text = f"'w{writer}-{made[writer]}'"
                one.cursor().execute(f"insert into loose values (null, {text}, 1, null, 'new')")
                if rng.random() < _DELETED:
                    one.cursor().execute(f"delete from loose where b = {text}")
                made[writer] += 1

    with running([partial(change, writer) for writer in range(_WRITERS)], stop):
        yield made


@pytest.mark.real
@pytest.mark.parametrize("way", PAIRS, ids=lambda p: str(p[0]), indirect=True)
def test_one_that_changes_all_the_time_is_read_between_two_changes(way: Way) -> None:
    began = time.monotonic()
    with way.pulled as pulled:
        with _busy(way) as made:
            report = way.copy()
            # Without a moment between two of them there would be none.
            assert made.total() > _BUSY_PER_S * (time.monotonic() - began)
        assert report.error is None
        pulled.caught_up()
        way.deliver(report)
    assert content(way.target, way.schema) == content(way.source, way.schema)


@pytest.mark.real
@pytest.mark.parametrize("way", PAIRS, ids=lambda p: str(p[0]), indirect=True)
def test_control_what_a_moment_sees_is_not_asked(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moment, "sees", lambda *_: False)
    begun = _committed_at_first(way, monkeypatch)
    with way.pulled as pulled:
        report = way.copy()
        pulled.caught_up()
        way.deliver(report)
    assert len(begun) == 1
    found, wanted = content(way.target, way.schema), content(way.source, way.schema)
    # What was seen comes once more from the log.
    assert len(found["loose"]) == len(wanted["loose"]) + 2


@pytest.mark.real
def test_control_the_moment_is_not_asked_for(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = _committed_at_first(way, monkeypatch)
    monkeypatch.setattr(keyless, "changed_between", lambda *_: [])
    with way.pulled as pulled:
        report = way.copy()
        pulled.caught_up()
        way.deliver(report)
    assert len(begun) == 1
    # What it has seen comes once more from the log.
    found, wanted = content(way.target, way.schema), content(way.source, way.schema)
    assert len(found["loose"]) == len(wanted["loose"]) + 2


@pytest.mark.real
def test_one_that_changes_all_the_time_is_refused(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    way.source.execute(_CHANGES[0], database=way.schema)
    monkeypatch.setattr(keyless, "ts_of", lambda *_: None)
    monkeypatch.setattr(keyless, "_ATTEMPTS", 3)
    with way.pulled:
        report = way.copy()
    assert report.error is not None
    assert report.error.code == "TG:ErrSnapshotTableBusy"
    assert report.error.object == f"{way.schema}.loose"


def _hashes(contents: list[int]) -> np.ndarray:
    """Contents as hashes; some have their first half in common."""
    found = np.array([(1 + c // 3, 1 + c % 3) for c in contents], np.uint64)
    return found.reshape(-1, 2)


@pytest.mark.parametrize("round_", range(20))
def test_as_many_rows_are_left_out_as_go(round_: int) -> None:
    rng = random.Random(seeds.seed() + round_)
    rows = [rng.randrange(12) for _ in range(rng.randrange(200))]
    gone = Counter(rng.sample(rows, rng.randrange(len(rows) + 1)))
    contents = sorted({*rows, *range(3)})
    fewer = np.array([gone[c] for c in contents], np.int64)
    leaving = Leaving(Balance(_hashes(contents), fewer, Balance.none().images))
    left: list[int] = []
    while rows:
        some, rows = rows[: (n := rng.randrange(1, 50))], rows[n:]
        kept = leaving.kept(_hashes(some))
        left += [c for c, keep in zip(some, kept, strict=True) if keep]
        gone_now = Counter(some) - Counter(c for c, k in zip(some, kept, strict=True) if k)
        gone -= gone_now
    assert not gone
    leaving.check("t")
    more = Leaving(Balance(_hashes([5]), np.array([1], np.int64), Balance.none().images))
    with pytest.raises(TidegateError) as refused:
        more.check("t")
    assert refused.value.code == "TG:ErrSnapshotRowsDiffer"


def test_what_can_be_copied_without_a_key() -> None:
    tables = [
        parse_create_table(f"CREATE TABLE t (a int) ENGINE={engine}", Session(), schema="s")
        for engine in ("InnoDB", "MyISAM")
    ]
    _check_tables(tables[:1], mariadb=False)
    for check in (lambda: _check_tables(tables, mariadb=False), lambda: _check_keys(tables[:1])):
        with pytest.raises(TidegateError) as refused:
            check()
        assert refused.value.code == "TG:ErrSnapshotNotPossible"
