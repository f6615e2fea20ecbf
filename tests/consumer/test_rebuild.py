"""What the messages say is enough: a consumer of their description rebuilds the upstream."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from sink.codec.canal.settings import CanalSettings
from tests import servers
from tests.consumer.canal_rebuild import Aligned, ByWatermark, Event, Wrong, rebuild
from tests.consumer.history import HISTORY, PARTITIONS, WITH, History
from tests.consumer.made_topic import Placing, by_key, by_table, consumed, delivered
from tests.consumer.same import assert_same

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def target() -> Iterator[servers.Database]:
    """Return an empty server of the upstream's kind."""
    try:
        with servers.database("mariadb-11.4") as made:
            yield made
    except servers.Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def history(mariadb: servers.Database) -> History:
    """Return what happened upstream."""
    return History.of(mariadb, HISTORY)


@pytest.mark.parametrize(
    ("settings", "placing", "watermarks", "seed"),
    [
        (WITH, by_key, True, 1),
        (WITH, by_key, True, 2),
        (WITH, by_table, False, 3),
        (WITH.model_copy(update={"only_output_updated_columns": True}), by_table, True, 4),
    ],
    ids=["watermarks", "again", "aligned", "changed-only"],
)
def test_the_topic_alone_gives_the_upstream(
    history: History,
    mariadb: servers.Database,
    target: servers.Database,
    settings: CanalSettings,
    placing: Placing,
    watermarks: bool,
    seed: int,
) -> None:
    rng = random.Random(seed)
    topic = delivered(history.steps(settings, placing), settings, PARTITIONS, rng)
    target.execute(f"DROP DATABASE IF EXISTS {history.schema}")
    _rebuild(topic, target, rng, watermarks=watermarks)
    assert_same(mariadb, target, history.schema)


def test_without_the_extension_partitions_are_aligned(
    mariadb: servers.Database, target: servers.Database
) -> None:
    """The last statements need the session that only the extension tells."""
    history, plain, rng = History.of(mariadb, HISTORY[:-3]), CanalSettings(), random.Random(5)
    _rebuild(delivered(history.steps(plain), plain, PARTITIONS, rng), target, rng, watermarks=False)
    assert_same(mariadb, target, history.schema)


def _rebuild(
    topic: list[list[bytes]], target: servers.Database, rng: random.Random, *, watermarks: bool
) -> None:
    with target.connect() as connection:
        read = consumed(topic, rng)
        consumer = rebuild(read, PARTITIONS, connection, watermarks=watermarks)
    assert consumer.waiting == 0


class Nothing:
    """A target for messages whose order alone is looked at."""

    def ddl(self, event: Event) -> None:
        """Take it."""

    def row(self, event: Event) -> bool:
        """Take it."""
        return True


def _read(topic: list[list[bytes]]) -> int:
    """Feed a topic to both ways of ordering; how many messages wait at the end."""
    both = [ByWatermark(PARTITIONS, Nothing()), Aligned(PARTITIONS, Nothing())]
    for consumer in both:
        for partition, message in consumed(topic, random.Random(6)):
            consumer.add(partition, message)
            consumer.advance()
    return sum(consumer.waiting for consumer in both)


def test_a_topic_that_breaks_the_order_is_noticed(history: History) -> None:
    """The negative control: each rule broken once."""
    good = delivered(history.steps(placing=by_table), WITH, PARTITIONS, random.Random(7))
    assert _read(good) == 0
    # The partition that holds the table's rows comes first.
    good.sort(key=lambda part: not any(b'"kinds"' in m and b'"INSERT"' in m for m in part))
    part = good[0]
    said = [json.loads(m) for m in part]
    ddl = next(i for i, m in enumerate(said) if m["type"] == "ALTER" and m["table"] == "kinds")
    row = next(
        i for i, m in enumerate(said) if i > ddl and not m["isDdl"] and m["table"] == "kinds"
    )
    before = [*part[:ddl], part[row], *part[ddl:row], *part[row + 1 :]]
    twice = [*part[: ddl + 1], part[ddl], *part[ddl + 1 :]]
    ts = said[row]["_tidb"]["commitTs"]
    mark = next(i for i, m in enumerate(said) if m["_tidb"].get("watermarkTs", 0) >= ts)
    late = [*part[:row], *part[row + 1 : mark + 1], part[row], *part[mark + 1 :]]
    missing = [*part[:ddl], *part[ddl + 1 :]]
    for wrong in (before, twice, late, missing):
        with pytest.raises(Wrong):
            _read([wrong, *good[1:]])
