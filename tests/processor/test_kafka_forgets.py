"""Kafka forgets what a changefeed had there: its transactional ids, or all of its ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from cdc.base.ids import FeedId
from cdc.changelog.index import RunKind
from processor.settings import MIB
from processor.window_size import WindowSize
from sink.kafka.deliverer import transactional_id
from sink.kafka.ledger import LEDGER_TOPIC
from tests import servers
from tests.e2e import topics
from tests.processor.in_process import InProcessJobs, Running
from tests.servers import Broker, Database
from tests.source.pulling import Pulled
from tests.waiting import until

TRANSACTIONS, ROWS = 40, 30
_FORGETFUL = {
    "transactional.id.expiration.ms": "1500",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    "producer.id.expiration.ms": "1500",
    "producer.id.expiration.check.interval.ms": "200",
}


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Broker]:
    """A broker that forgets who has not written for a second."""
    with servers.broker(_FORGETFUL) as running:
        yield running


@dataclass(frozen=True)
class Log:
    """A log of many transactions; ``middle`` is the ts of one in its middle."""

    folder: Path
    schema: str
    start_ts: int
    middle: int
    end: int


@pytest.fixture(scope="module")
def log(mariadb: Database, tmp_path_factory: pytest.TempPathFactory) -> Log:
    schema = "forgotten"
    mariadb.execute(f"DROP DATABASE IF EXISTS {schema}", f"CREATE DATABASE {schema}")
    mariadb.execute(f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, v VARCHAR(1000))")
    folder = tmp_path_factory.mktemp("forgotten") / "log"
    with Pulled(mariadb, folder) as pulled:
        for first in range(0, TRANSACTIONS * ROWS, ROWS):
            mariadb.execute(
                f"INSERT INTO {schema}.t SELECT seq, REPEAT('x', 1000)"
                f" FROM {schema}.seq_{first}_to_{first + ROWS - 1}"
            )
        pulled.caught_up()
    opened, runs = pulled.runs()
    state, commits = opened.state, runs.commit_ts[runs.kind == RunKind.DML]
    opened.close()
    return Log(folder, schema, state.first_ts, int(commits[TRANSACTIONS // 2]), state.resolved_ts)


@dataclass
class Maker:
    """Starts the test's feed."""

    log: Log
    broker: Broker
    topic: str
    started: list[Running] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.topic.replace("_", "-")

    def run(self, jobs: InProcessJobs | None = None, **how: Any) -> Running:
        query = "protocol=canal-json&partition-num=2&write-timeout=2s"
        sink = f"kafka://{self.broker.bootstrap}/{self.topic}?{query}"
        rule = {"matcher": [f"{self.log.schema}.*"], "partition": "index-value"}
        config = {
            "filter": {"rules": [f"{self.log.schema}.t"]}, "sink": {"dispatchers": [rule]},
        }  # fmt: skip
        start_ts = how.pop("start_ts", self.log.start_ts)
        made = Running(
            self.log.folder, sink, config, jobs or InProcessJobs(), start_ts=start_ts,
            feed=self.name, **how,
        )  # fmt: skip
        self.started.append(made)
        return made

    def each_once(self) -> None:
        """All rows of the log are there, none twice."""
        found = topics.ids(topics.read(self.broker.bootstrap, [self.topic]))
        assert Counter(found) == Counter(range(TRANSACTIONS * ROWS))

    def ids_are_forgotten(self, slots: int) -> None:
        """Wait until the broker knows none of the feed's transactional ids."""
        admin = KafkaAdminClient(bootstrap_servers=[self.broker.bootstrap])

        def known(own: str) -> bool:
            try:
                return bool(admin.describe_transactions([own])[own].producer_id >= 0)
            except KafkaError:
                return False

        feed = FeedId("", self.name, 0)
        try:
            own = [transactional_id(feed, n) for n in range(slots)]
            assert known(own[0]), "it is known at first"
            until(lambda: not any(known(one) for one in own), "all are forgotten", 60)
        finally:
            admin.close()


@pytest.fixture
def make(log: Log, forgetful: Broker, topic_prefix: str) -> Iterator[Maker]:
    made = Maker(log, forgetful, topic_prefix)
    yield made
    for one in made.started:
        one.stop()


@pytest.mark.parametrize("how", ["idle", "paused"])
def test_transactional_ids_that_have_expired(make: Maker, how: str) -> None:
    """Its producers are kept while it is idle; a pause ends them, and the ids are fenced anew."""
    log = make.log
    first = make.run(barrier_ts=log.middle)
    until(lambda: first.reports and first.reports[-1].checkpoint_ts >= log.middle, "half", 60)
    slots = first.jobs.jobs[0][0].plan.slots
    if how == "paused":
        first.stop()
    make.ids_are_forgotten(slots)
    if how == "paused":
        second = make.run(epoch=2, checkpoint_ts=first.reports[-1].checkpoint_ts)
        second.done()
    else:
        first.hold({}, log.end)
        first.done()
    assert not any(r.error for one in make.started for r in one.reports), "nobody is told"
    make.each_once()


def test_a_ledger_that_is_deleted_under_load(make: Maker) -> None:
    """Nothing goes on by a ledger that begins anew; behind what consumers have, it may."""
    log = make.log

    def delete(job: int, task: int) -> None:
        if (job, task) == (3, 1):
            topics.delete(make.broker.bootstrap, LEDGER_TOPIC)

    lost = make.run(InProcessJobs(delete), window_size=WindowSize(MIB, 64 << 10, patience=8))
    said = lost.ended()
    assert said.error is not None
    if said.error.kind == "transient":
        # The producer waits for a leader of what is gone, longer than a feed fails in silence.
        said = make.run(epoch=2, checkpoint_ts=said.checkpoint_ts).ended()
    assert said.error is not None
    assert (said.error.code, said.error.kind) == ("TG:ErrKafkaLedgerLost", "definite")
    assert "--overwrite-checkpoint-ts" in said.error.hint
    assert log.start_ts < said.checkpoint_ts < log.end
    make.run(start_ts=said.checkpoint_ts, epoch=3, incarnation=1).done()
    make.each_once()
