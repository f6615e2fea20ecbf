"""Each variant of gh-ost and pt-online-schema-change: one ALTER at the target, and equal rows.

A writer never stops meanwhile, and the capture is killed in the middle of a run of each tool.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import seeds
from tests.consumer.same import assert_same
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import CaptureMaker
from tests.e2e.conftest import captures as captures
from tests.online.writer import Writer
from tests.servers import Broker, Database, schema_tools
from tests.waiting import until

pytestmark = [pytest.mark.real]

# The third one, and each variant everywhere, with ONLINE=all: these tell enough from day to day.
SERVERS = ("mysql-8.0", "mariadb-11.8", *(["mysql-9.7"] if os.environ.get("ONLINE") else []))
_ORDERS = (
    "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(60) NOT NULL,"
    " c0 INT NOT NULL DEFAULT 0)"
)
# Of a table that others refer to, the tool must see to the references.
_FAMILY = (
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT NOT NULL, CONSTRAINT of_parent FOREIGN KEY (p)"
    " REFERENCES parent (id))",
    "INSERT INTO parent VALUES (1, 1), (2, 2)",
    "INSERT INTO child VALUES (1, 1), (2, 2)",
)
_TOOLS_TABLES = "SHOW TABLES LIKE '\\_%'"


@dataclass(frozen=True)
class Step:
    """One run of a tool. ``meant``: the target is told of it; ``daily``: it runs without ONLINE."""

    name: str
    tool: str
    alter: str
    options: tuple[str, ...] = ()
    meant: bool = True
    families: tuple[str, ...] = ("mysql", "mariadb")
    table: str = "orders"
    daily: bool = True


_REVERT = ("--revert", "--old-table=_orders_del", "--checkpoint", "--gtid")
_TRIGGER = "CREATE TRIGGER of_orders AFTER INSERT ON orders FOR EACH ROW SET @last = NEW.id"

STEPS = (
    Step("plain", "gh-ost", "ADD COLUMN c1 INT NOT NULL DEFAULT 1"),
    Step("plain", "pt", "ADD COLUMN c2 INT NOT NULL DEFAULT 2, ADD KEY k2 (c2)"),
    Step("two steps", "gh-ost", "ADD COLUMN c3 INT", ("--cut-over=two-step",)),
    Step(
        "old table kept, named by its time",
        "gh-ost",
        "DROP COLUMN c1, ADD COLUMN c4 VARCHAR(10) DEFAULT 'four'",
        ("--timestamp-old-table",),
    ),
    Step("names of its own", "gh-ost", "ADD COLUMN c5 INT", ("--force-table-names=mine",)),
    Step(
        "checkpoints", "gh-ost", "ADD COLUMN c6 INT", ("--checkpoint", "--gtid"), True, ("mysql",)
    ),
    # Back to the table before: the tool goes on in that from where the run before had ended.
    Step("reverted", "gh-ost", "DROP COLUMN `c6`", _REVERT, True, ("mysql",), daily=False),
    Step("instant", "gh-ost", "ADD COLUMN c7 INT", ("--attempt-instant-ddl",), True, ("mysql",)),
    Step("left over by the one before", "gh-ost", "ADD COLUMN c8 INT"),
    Step("old table kept", "pt", "DROP COLUMN c3", ("--no-drop-old-table",)),
    Step("a column renamed", "pt", "CHANGE c2 d2 BIGINT", ("--no-check-alter",)),
    Step("no swap", "pt", "ADD COLUMN c9 INT", ("--no-swap-tables", "--no-drop-new-table"), False),
    Step("its name was taken", "pt", "ADD COLUMN c10 INT"),
    Step(
        "triggers kept",
        "pt",
        "ADD COLUMN c11 INT",
        ("--preserve-triggers",),
        True,
        ("mysql",),
        daily=False,
    ),
    Step("nothing changes", "pt", "ENGINE=InnoDB", (), False),
)


REFERENCES = (
    Step(
        "references rebuilt", "pt", "ADD COLUMN r INT",
        ("--alter-foreign-keys-method=rebuild_constraints",), table="parent",
    ),
    Step(
        "dropped, then swapped", "pt", "ADD COLUMN s INT",
        ("--alter-foreign-keys-method=drop_swap",), True, ("mariadb",), "parent",
    ),
)  # fmt: skip


def _gh_ost(source: Database, schema: str, step: Step, writer: Writer, folder: Path) -> None:
    """Run it; nobody writes at the swap.

    A write that waits for the tool's lock may come between its DROP of the sentry and its RENAME
    (seen on MySQL 8.0.33): then it is in the old table alone, and the upstream itself has lost it.
    """
    options = ["--initially-drop-ghost-table", "--initially-drop-old-table"]
    if "--timestamp-old-table" in step.options:
        options = ["--initially-drop-ghost-table"]
    alter = [f"--alter={step.alter}"]
    if "--revert" in step.options:
        options, alter = [], []
    flag, output = folder / "postpone", folder / "gh-ost.txt"
    flag.touch()
    run = schema_tools.gh_ost().start(
        "--host=127.0.0.1", f"--port={source.port}", "--user=root", f"--database={schema}",
        f"--table={step.table}", *alter, "--allow-on-master", "--execute",
        "--skip-metadata-lock-check", "--default-retries=20", "--initially-drop-socket-file",
        f"--serve-socket-file={folder / 'socket'}", f"--postpone-cut-over-flag-file={flag}",
        *options, *step.options, output=output,
    )  # fmt: skip
    try:
        until(
            lambda: run.poll() is not None or "postponing cut-over" in output.read_text(),
            "gh-ost has copied the table",
            120,
        )
        with writer.paused():
            flag.unlink()
            assert run.wait(60) == 0, output.read_text()[-3000:]
    finally:
        run.kill()
        run.wait()


def _pt(source: Database, schema: str, step: Step, writer: Writer, folder: Path) -> None:
    done = schema_tools.pt_osc().run(
        f"h=127.0.0.1,P={source.port},u=root,D={schema},t={step.table}", f"--alter={step.alter}",
        "--execute", "--no-version-check", "--recursion-method=none",
        "--no-check-replication-filters", "--chunk-time=0.1", *step.options,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


_RUN = {"gh-ost": _gh_ost, "pt": _pt}


@dataclass(frozen=True)
class Feeds:
    """One upstream with a changefeed of everything into a database, and one of a table to Kafka."""

    capture: CaptureProcess
    source: Database
    target: Database
    broker: Broker
    schema: str
    names: tuple[str, str]

    def delivered(self) -> None:
        """Wait until all that is committed is at both targets."""
        for name in self.names:
            self.capture.wait_checkpoint(name, timeout_s=300)

    def ddls(self, feed: str) -> list[str]:
        """Texts of schema changes that were carried out, of one changefeed."""
        shown = self.capture.ask("GET", f"/changefeeds/{feed}/ddls?state=all")
        return [e["sql"] for e in shown["items"] if e["state"] == "done"]


@pytest.fixture(params=seeds.drawn(SERVERS))
def feeds(
    request: pytest.FixtureRequest,
    captures: CaptureMaker,
    database: Callable[..., Database],
    broker: Broker,
    fresh_name: str,
) -> Iterator[Feeds]:
    """Return the changefeeds of one server."""
    source = database(request.param, gtid=True)
    target = database("mariadb-11.4" if source.kind == "mariadb" else "mysql-8.0", options=())
    if source.name == target.name:
        target = database("mysql-9.7")
    schema, capture = fresh_name, captures()
    charset = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    for server in (source, target):
        server.execute(f"CREATE DATABASE {schema} {charset}")
        server.execute(_ORDERS, database=schema)
    capture.register("osc", source.uri())
    names = ("to-mysql", "to-kafka")
    capture.create(names[0], "osc", f"mysql://root@127.0.0.1:{target.port}/", [f"{schema}.*"])
    topic = f"kafka://{broker.bootstrap}/{schema}?protocol=canal-json&partition-num=1"
    capture.create(names[1], "osc", topic, [f"{schema}.orders"])
    yield Feeds(capture, source, target, broker, schema, names)
    for name in names:
        capture.ask("DELETE", f"/changefeeds/{name}")


def _references(feeds: Feeds, writer: Writer, folder: Path) -> None:
    """Rows that come behind the swap still find their parents, at the target too."""
    source, schema, feed = feeds.source, feeds.schema, feeds.names[0]
    source.execute(*_FAMILY, database=schema)
    told = []
    for number, step in enumerate(s for s in REFERENCES if source.kind in s.families):
        _pt(source, schema, step, writer, folder)
        told.append(f"ALTER TABLE `{schema}`.`parent` {step.alter}")
        source.execute(
            f"INSERT INTO parent (id, v) VALUES ({10 + number}, 1)",
            f"INSERT INTO child VALUES ({10 + number}, {10 + number})",
            database=schema,
        )
    feeds.delivered()
    assert feeds.capture.feed(feed)["stopped_tables"] == []
    assert_same(source, feeds.target, schema)
    ran = [" ".join(sql.split()) for sql in feeds.ddls(feed)]
    assert [sql for sql in ran if sql.startswith(f"ALTER TABLE `{schema}`.`parent`")] == told
    assert not any("`_parent" in sql.split("REFERENCES")[0] for sql in ran), ran


def test_each_variant_is_one_alter_at_the_target(feeds: Feeds, tmp_path: Path) -> None:
    source, schema = feeds.source, feeds.schema
    steps = [s for s in STEPS if source.kind in s.families]
    if not os.environ.get("ONLINE"):
        steps = [s for s in steps if s.daily]
    writer = Writer(source, schema, seeds.seed())
    with writer.running():
        for number, step in enumerate(steps):
            keeps = "--preserve-triggers" in step.options
            if keeps:
                source.execute(_TRIGGER, database=schema)
            _RUN[step.tool](source, schema, step, writer, tmp_path)
            if keeps:
                source.execute("DROP TRIGGER of_orders", database=schema)
            if number in (0, 1):
                feeds.capture.kill()
                feeds.capture.start()
    until(lambda: writer.rows > 100, "rows are written")
    for name in [str(row[0]) for row in source.execute(_TOOLS_TABLES, database=schema)]:
        source.execute(f"DROP TABLE {name}", database=schema)
    feeds.delivered()
    for name in feeds.names:
        shown = feeds.capture.feed(name)
        assert (shown["state"], shown["stopped_tables"]) == ("normal", [])
    assert_same(source, feeds.target, schema)
    table = f"`{schema}`.`orders`"
    wanted = [(s, f"ALTER TABLE {table} {s.alter}") for s in steps if s.meant]
    for feed in feeds.names:
        ran = [" ".join(sql.split()) for sql in feeds.ddls(feed)]
        assert len(ran) == len(wanted), ran
        for (step, sql), text in zip(wanted, ran, strict=True):
            # Instant: the tool's own statement on the table itself.
            assert text.casefold() == sql.casefold() or step.name == "instant", (step, text)
    messages = topics.read(feeds.broker.bootstrap, [schema], isolation="read_committed")
    assert {m.body["table"] for m in messages if m.body["table"]} == {"orders"}
    assert sum(m.body["isDdl"] for m in messages) == len(wanted)
    _references(feeds, writer, tmp_path)
