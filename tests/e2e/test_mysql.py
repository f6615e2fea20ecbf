"""From a server's binlog through Spark into another server, exactly once, whatever dies."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil
import pytest

from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import SMALL_WINDOWS, CaptureProcess
from tests.e2e.conftest import CaptureMaker
from tests.processor.to_mysql import PAIRS, TABLES, ledger, turn
from tests.seeds import drawn
from tests.servers import Broker, Database
from tests.servers.following import Following
from tests.servers.proxy import Proxy
from tests.sink_mysql.replay import content, same_schema
from tests.waiting import until

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def own(captures: CaptureMaker) -> CaptureProcess:
    """Return a capture whose windows are small."""
    return captures(settings=SMALL_WINDOWS)


@dataclass(frozen=True)
class Pair:
    """Two servers with the same empty tables, and a changefeed between them."""

    capture: CaptureProcess
    source: Database
    target: Database
    schema: str

    @property
    def name(self) -> str:
        """The changefeed."""
        return self.schema.replace("_", "-")

    def tables(self, *statements: str) -> None:
        """Create tables on both sides."""
        self.source.execute(f"create database {self.schema}")
        self.source.execute(*statements, database=self.schema)
        same_schema(self.source, self.target, self.schema)

    def change(self, *statements: str) -> None:
        """Run statements upstream."""
        self.source.execute(*statements, database=self.schema)

    def create(self, query: str = "worker-count=2", port: int = 0, more: str = "") -> None:
        """Create the changefeed by the command line."""
        upstream = self.source.name.replace(".", "-")
        known = [u["name"] for u in self.capture.ask("GET", "/upstreams")["items"]]
        if upstream not in known:
            self.capture.register(upstream, self.source.uri())
        uri = f"mysql://root@127.0.0.1:{port or self.target.port}/?{query}"
        config = self.capture.folder / "feed.toml"
        rules = f'[filter]\nrules = ["{self.schema}.*"]\n'
        config.write_text(f"force-replicate = true\n{more}\n{rules}")
        done = self.capture.cli(
            *("changefeed", "create", "--upstream", upstream, "-c", self.name),
            *("--sink-uri", uri, "--config", str(config)),
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def same(self) -> None:
        """Wait until all is delivered; both sides are equal in every byte."""
        self.capture.wait_checkpoint(self.name, timeout_s=120)
        assert content(self.target, self.schema) == content(self.source, self.schema)


@pytest.fixture
def pair(
    request: pytest.FixtureRequest,
    own: CaptureProcess,
    database: Callable[..., Database],
    fresh_name: str,
) -> Iterator[Pair]:
    """Return a pair; its changefeed is removed."""
    one, other = getattr(request, "param", PAIRS[0])
    made = Pair(own, database(one), database(other), fresh_name)
    yield made
    if own.running:
        own.api("DELETE", f"/changefeeds/{made.name}")


@pytest.mark.parametrize("pair", drawn(PAIRS), ids=lambda p: str(p[0]), indirect=True)
def test_workers_and_capture_die_under_changes(pair: Pair) -> None:
    pair.tables(*TABLES)
    pair.create()
    for i in range(40):
        pair.change(*turn(i))
        if i in (8, 24):
            until(pair.capture.workers, "there are workers")[0].kill()
        if i == 16:
            pair.capture.kill()
            pair.capture.start()
    pair.same()
    found = ledger(pair.target, pair.name)
    assert len({entry[0] for entry in found.values()}) == 1, "one epoch in all buckets"
    assert sum(entry[1] is not None for entry in found.values()) == 2


def test_connections_are_lost_in_commit(pair: Pair) -> None:
    pair.tables("create table t (id int primary key)", "create table nokey (v int)")
    with Proxy(pair.target.port) as proxy:
        pair.create("worker-count=1", proxy.port)
        for i, forwarded in enumerate((True, False, True)):
            proxy.cut_at_commit(forward=forwarded)
            pair.change(f"insert into t values ({i})", f"insert into nokey values ({i})")
            until(lambda: proxy.cuts == i + 1, "the connection is cut in COMMIT")  # noqa: B023
        pair.same()
        pair.capture.api("DELETE", f"/changefeeds/{pair.name}")


def test_the_target_dies_and_comes_back(
    own: CaptureProcess, database: Callable[..., Database], fresh_name: str
) -> None:
    with servers.database("mariadb-11.8") as target:
        pair = Pair(own, database("mariadb-11.4"), target, fresh_name)
        pair.tables(*TABLES)
        pair.create("worker-count=2")
        for i in range(20):
            pair.change(*turn(i))
            if i == 10:
                target.kill()
            if i == 15:
                target.start()
        pair.same()
        own.api("DELETE", f"/changefeeds/{pair.name}")


def test_one_log_feeds_a_topic_and_a_database(pair: Pair, broker: Broker) -> None:
    pair.tables("create table t (id int primary key)")
    pair.create()
    sink = f"kafka://{broker.bootstrap}/{pair.schema}?protocol=canal-json"
    upstream = pair.source.name.replace(".", "-")
    other = f"{pair.name}-k"
    pair.capture.create(other, upstream, sink, [f"{pair.schema}.*"])
    pair.change(*(f"insert into t values ({i})" for i in range(20)))
    pair.same()
    pair.capture.wait_checkpoint(other)
    assert topics.ids(topics.read(broker.bootstrap, [pair.schema])) == list(range(20))
    assert _dump_threads(pair) == 1, "the upstream is read once for both"
    pair.capture.ask("DELETE", f"/changefeeds/{other}")


def _dump_threads(pair: Pair) -> int:
    """How many of the server's dump threads send to this capture, by the ports of both."""
    connections = psutil.Process(pair.capture.pid).net_connections("tcp")
    ports = {c.laddr.port for c in connections if c.raddr and c.raddr.port == pair.source.port}
    hosts = pair.source.execute(
        "select host from information_schema.processlist where command like 'Binlog Dump%'"
    )
    return sum(int(str(host).rpartition(":")[2]) in ports for (host,) in hosts)


def test_query_says_how_each_table_is_applied(pair: Pair) -> None:
    pair.tables("create table t (id int primary key)", "create table u (id int primary key)")
    pair.target.execute("alter table u modify id bigint", database=pair.schema)
    pair.create()
    pair.change("insert into t values (1)", "insert into u values (2)", "insert into t values (3)")
    pair.same()
    shown = pair.capture.cli("changefeed", "query", "-c", pair.name, "--json")
    applied = {one["table"]: one for one in json.loads(shown.stdout)["apply"]}
    assert applied[f"{pair.schema}.t"]["method"] == "rows"
    assert applied[f"{pair.schema}.t"]["reason"]
    assert applied[f"{pair.schema}.u"]["method"] == "sql"
    assert "bigint" in applied[f"{pair.schema}.u"]["reason"]


@pytest.mark.parametrize(
    ("change", "query", "code", "said"),
    [
        ("drop table t", "", "TG:ErrTargetTableMissing", "no such table"),
        ("alter table t modify v bigint", "apply=rows", "TG:ErrTargetIncompatible", "bigint"),
        ("alter table t drop v", "", "TG:ErrTargetColumnMissing", "no column v"),
        ("alter table t engine=myisam", "", "TG:ErrTargetIncompatible", "no transactions"),
        ("do 1", "protocol=canal-json", "TG:ErrSinkOptionNotSupported", "protocol"),
        ("do 1", "worker-count=x", "TG:ErrSinkURIInvalid", "worker-count"),
    ],
)
def test_refused_before_anything_is_written(
    pair: Pair, change: str, query: str, code: str, said: str
) -> None:
    pair.tables("create table t (id int primary key, v int)")
    pair.target.execute(change, database=pair.schema)
    with pytest.raises(AssertionError) as e:
        pair.create(query)
    text = str(e.value)
    assert code in text
    assert said in text
    assert re.search(r"hint", text)
    assert pair.capture.api("GET", f"/changefeeds/{pair.name}").status_code == 404


def test_a_row_that_the_target_refuses_stops_its_table_with_the_key(pair: Pair) -> None:
    pair.tables("create table t (id int primary key, v int)", "create table u (id int primary key)")
    pair.target.execute("insert into t values (7, 7)", database=pair.schema)
    pair.create()
    pair.change("insert into t values (6, 6), (7, 70), (8, 8)", "insert into u values (1)")
    shown = pair.capture.wait_state(pair.name, "warning")
    assert shown["error"]["code"] == "TG:ErrTargetDuplicateKey"
    assert f"{pair.schema}.t, row id=7" in shown["error"]["object"]
    assert shown["error"]["hint"]
    pair.change("insert into u values (2)")
    count = f"select count(*) from {pair.schema}.u"
    until(lambda: pair.target.execute(count)[0][0] == 2, "the other table goes on")
    # The operator mends the target and goes on: nothing is lost or repeated.
    pair.target.execute("delete from t where id = 7", database=pair.schema)
    pair.capture.ask("POST", f"/changefeeds/{pair.name}/resume")
    pair.same()


def test_a_sync_point_is_the_upstream_at_its_ts(
    own: CaptureProcess, database: Callable[..., Database], fresh_name: str
) -> None:
    """A replica of the target that stops at a point has what the upstream had committed by then."""
    with (
        servers.database("mysql-8.0") as target,
        servers.database("mysql-8.0", options=["--server-id=2"]) as replica,
    ):
        pair = Pair(own, database("mysql-8.0"), target, fresh_name)
        pair.tables("create table a (id int primary key)", "create table b (id int primary key)")
        pair.create(more='enable-sync-point = true\nsync-point-interval = "1s"')
        said = "select primary_ts, secondary_position from tidegate.sync_points order by primary_ts"

        def points() -> list[tuple[int, str]]:
            there = target.execute("show tables in tidegate like 'sync_points'")
            return [(int(ts), str(at)) for ts, at in target.execute(said)] if there else []

        # By the number of a transaction: when it was sent, and when it was known to be committed.
        sent: list[float] = []
        known: list[float] = []

        def transfer() -> list[tuple[int, str]]:
            number = len(sent)
            sent.append(time.time())
            pair.change(
                "begin", f"insert into a values ({number})", f"insert into b values ({number})",
                "commit",
            )  # fmt: skip
            known.append(time.time())
            if number == 5:
                until(own.workers, "there are workers")[0].kill()
            return [p for p in points() if p[0] >> 18 > 1000 * sent[min(8, number)]]

        until(lambda: len(transfer()) >= 3, "there are three points while rows come")
        pair.same()
        found = [p for p in points() if p[0] >> 18 > 1000 * sent[0]]
        assert own.feed(pair.name)["sync_point_ts"] in {ts for ts, _ in points()}
        following = Following(target, replica)
        following.follow()
        following.part()
        for ts, at in found:
            replica.execute(f"START REPLICA UNTIL SQL_AFTER_GTIDS = '{at}'")
            wait = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{at}', 60)"
            assert replica.execute(wait)[0][0] == 0
            following.part()
            a, b = (
                [row[0] for row in replica.execute(f"select id from {t} order by id")]
                for t in (f"{fresh_name}.a", f"{fresh_name}.b")
            )
            least = sum(t * 1000 < ts >> 18 for t in known)
            most = sum(t * 1000 <= (ts >> 18) + 1 for t in sent)
            assert a == b == list(range(len(a))), f"all of each transaction at ts {ts}"
            assert least <= len(a) <= most, f"what was committed at ts {ts}"
        own.api("DELETE", f"/changefeeds/{pair.name}")
        assert points() == []


def test_logs_show_what_a_target_refuses_only_as_long_as_they_may(pair: Pair) -> None:
    """A row by its key, and a statement by its text: neither once the server is told so."""
    pair.tables(
        "create table t (k varchar(40) primary key, v varchar(40))",
        "create table u (k varchar(40) primary key, v varchar(40))",
        "create table w (k int primary key)",
        "create table x (k int primary key)",
    )
    pair.target.execute(
        "alter table t modify v varchar(5)",
        "alter table u modify v varchar(5)",
        "alter table w add column c varchar(40) not null default 'other'",
        "alter table x add column c varchar(40) not null default 'other'",
        database=pair.schema,
    )
    pair.create()
    started = len(pair.capture.text())
    pair.change("insert into t values ('planted-key-1', 'planted-value-1')")
    pair.change("alter table w add column c varchar(40) default 'planted-word-1'")
    log = until(lambda: _errors_of(pair, started), "both are refused")
    assert "planted-key-1" in log
    assert "planted-word-1" in log
    answer = pair.capture.ask("POST", "/log/redact", {"redact_info_log": "on"})
    assert answer == {"previous_mode": "off", "current_mode": "on"}
    started = len(pair.capture.text())
    pair.change("insert into u values ('planted-key-2', 'planted-value-2')")
    pair.change("alter table x add column c varchar(40) default 'planted-word-2'")
    log = until(lambda: _errors_of(pair, started), "both are refused")
    assert "planted" not in log
    assert "row ?" in log
    assert "statement: ?" in log
    shown = json.dumps(pair.capture.feed(pair.name), ensure_ascii=False)
    assert "planted-key-2" in shown, "who may ask sees which row it is"
    assert shown.isprintable(), "marks are only within the process"


def _errors_of(pair: Pair, start: int) -> str:
    """What was logged from there on, once a row and a statement are among it."""
    text = pair.capture.text()[start:]
    both = re.search(r", row .*TG:Err|TG:Err.*, row ", text) and "; statement: " in text
    return text if both else ""
