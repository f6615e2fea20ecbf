"""A topic that a capture wrote is enough to rebuild the upstream, schema changes included."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest

from tests import servers
from tests.consumer.canal_rebuild import rebuild
from tests.consumer.history import HISTORY
from tests.consumer.same import assert_same
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import Way, make_way
from tests.seeds import drawn
from tests.waiting import until

pytestmark = pytest.mark.real

PARTITIONS = 3


@pytest.fixture(scope="module")
def targets() -> Iterator[Callable[[str], servers.Database]]:
    """Return a function that gives an empty server of a kind."""
    made: dict[str, servers.Database] = {}
    with ExitStack() as stack:

        def give(name: str) -> servers.Database:
            try:
                if name not in made:
                    made[name] = stack.enter_context(servers.database(name))
            except servers.Unavailable as error:
                pytest.skip(str(error))
            return made[name]

        yield give


def _told(way: Way, *names: str) -> None:
    """Wait until every partition of the topics says that it has all that is committed now."""
    wanted = names or (way.schema,)
    ts = way.capture.tso()
    way.capture.wait_checkpoint(way.name, ts, timeout_s=300)

    def watermarks() -> dict[tuple[str, int], int]:
        found = topics.read(way.broker.bootstrap, wanted)
        marks = [m for m in found if m.body["type"] == "TIDB_WATERMARK"]
        return {(m.topic, m.partition): m.body["_tidb"]["watermarkTs"] for m in marks}

    def complete() -> bool:
        found = watermarks()
        return len(found) == PARTITIONS * len(wanted) and min(found.values()) >= ts

    try:
        until(complete, "every partition's watermark passes what is committed")
    except AssertionError as error:
        raise AssertionError(f"{error}: {watermarks()}, {ts}") from None


def _rebuilt(way: Way, target: servers.Database, *silent: str, watermarks: bool = True) -> None:
    """Read the topics into an empty database and compare it with the upstream.

    ``silent`` topics have no table any more, and so no watermarks.
    """
    names = sorted(topics.named(way.broker.bootstrap, way.schema))
    read = topics.records(way.broker.bootstrap, names)
    parts: list[list[bytes]] = [[] for _ in range(PARTITIONS * len(names))]
    for name, partition, _, _, value in read:
        parts[names.index(name) * PARTITIONS + partition].append(value or b"")
    ended = {i for i in range(len(parts)) if names[i // PARTITIONS] in silent}
    rng = random.Random(len(read))
    (options,) = way.execute(
        "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata"
        f" WHERE schema_name = '{way.schema}_0'"
    )
    target.execute(
        f"DROP DATABASE IF EXISTS {way.schema}",
        f"CREATE DATABASE {way.schema} CHARACTER SET {options[0]} COLLATE {options[1]}",
    )
    left = [list(reversed(part)) for part in parts]

    def interleaved() -> Iterator[tuple[int, bytes]]:
        while any(left):
            partition = rng.choice([p for p, part in enumerate(left) if part])
            yield partition, left[partition].pop()

    with target.connect() as connection:
        consumer = rebuild(
            interleaved(), len(parts), connection, watermarks=watermarks, silent=ended
        )
    assert consumer.waiting == 0
    assert_same(way.database, target, way.schema)


@pytest.mark.parametrize(
    ("server", "placing"),
    drawn(
        [("mariadb-11.4", "index-value"), ("mariadb-11.4", "table"), ("mysql-8.0", "index-value")],
        names=2,
    ),
)
def test_the_topic_alone_rebuilds_the_upstream(
    capture: CaptureProcess,
    database: Callable[[str], servers.Database],
    targets: Callable[[str], servers.Database],
    broker: servers.Broker,
    fresh_name: str,
    server: str,
    placing: str,
) -> None:
    target, upstream = targets(server), f"r-{server.replace('.', '-')}"
    way = make_way(capture, database(server), broker, fresh_name, upstream)
    # How the database began, which the topic does not tell.
    way.execute(f"CREATE DATABASE {way.schema}_0")
    rules = [{"matcher": ["*.*"], "partition": placing}]
    way.create(
        sink=way.sink(partition_num=PARTITIONS, enable_tidb_extension=True),
        config={"sink": {"dispatchers": rules}, "force_replicate": True},
    )
    way.execute(*HISTORY)
    _told(way)
    _rebuilt(way, target, watermarks=True)
    _rebuilt(way, target, watermarks=False)
    done = capture.cli("changefeed", "verify", "-c", way.name, "--whole")
    assert done.returncode == 0, done.stdout + done.stderr
    capture.ask("DELETE", f"/changefeeds/{way.name}")


def test_each_table_in_a_topic_of_its_own(
    way: Way, targets: Callable[[str], servers.Database]
) -> None:
    """New tables get topics, and a renamed one goes on in another."""
    way.execute(f"CREATE DATABASE {way.schema}_0")
    rules = [{"matcher": ["*.*"], "partition": "index-value", "topic": way.schema + "_of_{table}"}]
    way.create(
        sink=way.sink(partition_num=PARTITIONS, enable_tidb_extension=True),
        config={"sink": {"dispatchers": rules}},
    )
    way.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v INT)",
        "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
        "CREATE TABLE b (id INT PRIMARY KEY, v INT)",
        "INSERT INTO b VALUES (1, 10), (2, 20), (3, 30)",
        "RENAME TABLE a TO spare, b TO a, spare TO b",
        "UPDATE a SET v = v + 1",
        "DELETE FROM b WHERE id = 1",
        "ALTER TABLE a RENAME TO c, ADD COLUMN more INT DEFAULT 5",
        "INSERT INTO c VALUES (9, 9, 9)",
        "UPDATE c SET v = 0 WHERE id = 2",
    )
    _told(way, way.schema + "_of_b", way.schema + "_of_c")
    _rebuilt(way, targets("mariadb-11.4"), way.schema, way.schema + "_of_a")
    done = way.capture.cli("changefeed", "verify", "-c", way.name, "--whole")
    assert done.returncode == 0, done.stdout + done.stderr


def _random_history(rng: random.Random, count: int) -> Iterator[str]:
    """Return rows and schema changes of a few tables, in an order that a server accepts."""
    columns = {name: ["v"] for name in "pqrs"}
    fresh = 0
    for name in columns:
        yield f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, v INT)"
    for _ in range(count):
        name = rng.choice(list(columns))
        known, dice = columns[name], rng.random()
        if dice < 0.5:
            rows = ", ".join(f"({rng.randrange(1000)})" for _ in range(rng.randrange(1, 9)))
            yield f"INSERT INTO {name} ({rng.choice(known)}) VALUES {rows}"
        elif dice < 0.7:
            value = rng.randrange(1000)
            yield f"UPDATE {name} SET {rng.choice(known)} = {value} ORDER BY id LIMIT 5"
        elif dice < 0.76:
            yield f"DELETE FROM {name} ORDER BY id DESC LIMIT 2"
        elif dice < 0.86:
            fresh += 1
            known.append(f"c{fresh}")
            yield f"ALTER TABLE {name} ADD COLUMN c{fresh} BIGINT DEFAULT {fresh}"
        elif dice < 0.90 and len(known) > 1:
            yield f"ALTER TABLE {name} DROP COLUMN {known.pop()}"
        elif dice < 0.94:
            old, known[-1] = known[-1], f"r{fresh}_{len(known)}_{rng.randrange(1 << 30)}"
            yield f"ALTER TABLE {name} RENAME COLUMN {old} TO {known[-1]}"
        elif dice < 0.97:
            other = rng.choice([n for n in columns if n != name])
            columns[name], columns[other] = columns[other], columns[name]
            yield f"RENAME TABLE {name} TO swapped, {other} TO {name}, swapped TO {other}"
        elif dice < 0.985:
            yield f"TRUNCATE TABLE {name}"
        else:
            columns[name] = ["v"]
            yield f"DROP TABLE {name}"
            yield f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, v INT)"


def test_under_load_while_the_capture_is_killed(
    way: Way, targets: Callable[[str], servers.Database]
) -> None:
    target = targets("mariadb-11.4")
    way.execute(f"CREATE DATABASE {way.schema}_0")
    rules = [{"matcher": ["*.*"], "partition": "index-value"}]
    way.create(
        sink=way.sink(partition_num=PARTITIONS, enable_tidb_extension=True),
        config={"sink": {"dispatchers": rules}},
    )
    statements = list(_random_history(random.Random(11), 450))
    done = 0

    def work() -> None:
        nonlocal done
        for i in range(0, len(statements), 15):
            way.execute(*statements[i : i + 15])
            done += 15
            time.sleep(0.2)

    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(work)
        for share in (0.3, 0.6):
            until(partial(lambda least: done >= least, share * len(statements)), "the load goes on")
            way.capture.kill()
            way.capture.start()
        worker.result(120)
    _told(way)
    _rebuilt(way, target, watermarks=True)
    _rebuilt(way, target, watermarks=False)
