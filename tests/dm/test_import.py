"""A task of DM's becomes changefeeds that let the same tables and events pass."""

from __future__ import annotations

import itertools
import json
import random
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from typer.testing import CliRunner

from cdc.base.nodes import qualified
from cdc.cli.dm import app
from cdc.cli.dm_task import DmTaskNotSupported, imported
from cdc.cli.imported import ImportedNode, commands, toml_text
from cdc.coord.feed_config import FeedConfig
from filter.decision import DdlFilter
from filter.rules import TableRules
from owner.replica_config import check
from sink.dispatch.read import read_dispatchers
from sink.dispatch.target import TargetRouter
from tests import seeds

TASK = """
name: "orders_task"
task-mode: incremental
meta-schema: "dm_meta"
timezone: "Asia/Shanghai"
case-sensitive: false
online-ddl: true
trash-table-rules: ["^_(.*)_(?:ghc|del|old)$"]
ignore-checking-items: ["auto_increment_ID"]
target-database:
  host: "192.168.0.1"
  port: 4000
  user: "root"
  password: "/Q7B9DizNLLTTfiZHv9WoEAKamfpIUs="
  session: {sql_mode: "ANSI_QUOTES"}
mysql-instances:
  - source-id: "mysql-replica-01"
    meta: {binlog-name: mysql-bin.000001, binlog-pos: 4}
    route-rules: ["shop-rule", "users-rule"]
    filter-rules: ["no-drops"]
    block-allow-list: "log"
    expression-filters: ["odd"]
    syncer-config-name: "global"
    mydumper-config-name: "global"
  - source-id: "mysql-replica-02"
    meta: {binlog-gtid: "e68f6068-53ec-11eb-9c5f-0242ac110003:1-22"}
block-allow-list:
  log:
    do-dbs: ["shop", "~^crm[0-9]$"]
    ignore-tables:
      - {db-name: "shop", tbl-name: "tmp_*"}
routes:
  shop-rule: {schema-pattern: "shop", target-schema: "store"}
  users-rule: {schema-pattern: "shop", table-pattern: "users", target-schema: "store",
    target-table: "people"}
filters:
  no-drops:
    schema-pattern: "shop"
    table-pattern: "*"
    events: ["truncate table", "drop table", "all dml"]
    sql-pattern: ["^DROP\\\\s+PROCEDURE"]
    action: Ignore
expression-filter:
  odd: {schema: "shop", table: "users", insert-value-expr: "id % 2 = 1"}
mydumpers:
  global: {threads: 4}
syncers:
  global: {worker-count: 8, batch: 100, safe-mode: false}
"""
SOURCE = """
source-id: "mysql-replica-01"
enable-gtid: true
from: {host: "127.0.0.1", port: 3306, user: "dm", password: "x"}
"""
FIRST = {
    "trash-table-rules": ["^_(.*)_(?:ghc|del|old)$"],
    "filter": {
        "rules": ["shop.*", "/^crm[0-9]$/.*", "!shop.tmp_*"],
        "event-filters": [
            {
                "matcher": ["shop.*"],
                "ignore-event": ["truncate table", "drop table", "all dml"],
                "ignore-sql": ["^DROP\\s+PROCEDURE"],
            },
            {"matcher": ["shop.users"], "ignore-insert-value-expr": "id % 2 = 1"},
        ],
    },
    "sink": {
        "dispatchers": [
            {"matcher": ["shop.users"], "target-schema": "store", "target-table": "people"},
            {"matcher": ["shop.*"], "target-schema": "store"},
        ]
    },
}


def _task(text: str = TASK) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def test_each_source_is_a_changefeed() -> None:
    made = imported(_task(), {"mysql-replica-01": yaml.safe_load(SOURCE)})
    first, second = made.feeds
    assert first.config == FIRST
    assert (first.upstream, first.feed) == ("mysql-replica-01", "orders-task-mysql-replica-01")
    assert first.nodes == (
        ImportedNode("mysql-replica-01", "mysql://dm@127.0.0.1:3306", "mysql-bin.000001:4"),
    )
    assert first.sink_uri == "mysql://root@192.168.0.1:4000/?worker-count=8"
    assert second.nodes[0].start == "e68f6068-53ec-11eb-9c5f-0242ac110003:1-22"
    assert second.config["filter"]["rules"] == ["*.*"]
    # A server would take it as it is.
    DdlFilter(check(first.config))
    left = dict(made.left)
    assert {"meta-schema", "timezone", "mydumpers", "syncers.batch"} <= left.keys()
    assert "target-database.session" in left
    assert "/Q7B9" not in repr(made)


def test_the_command_writes_files_and_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(TASK)
    (tmp_path / "source.yaml").write_text(SOURCE)
    words = ["import", str(tmp_path / "task.yaml"), "--source", str(tmp_path / "source.yaml")]
    done = CliRunner().invoke(app, [*words, "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    file = tmp_path / "orders-task-mysql-replica-01.toml"
    assert tomllib.loads(file.read_text()) == FIRST
    upstream, feed, *_ = done.output.splitlines()
    assert shlex.split(upstream)[-4:] == [
        "--uri", "mysql://dm@127.0.0.1:3306", "--start", "mysql-bin.000001:4",
    ]  # fmt: skip
    # From where the log begins: "now" would leave out what was committed since DM ended.
    assert shlex.split(feed)[-4:] == ["--config", str(file), "--start-ts", "earliest"]
    assert "meta-schema: " in done.output
    listed = CliRunner().invoke(app, [*words, "--output", str(tmp_path), "--json"])
    assert json.loads(listed.output)["changefeeds"][0]["config"] == FIRST


def test_the_commands_are_those_of_the_program() -> None:
    """Each option that is printed is one of the command's."""
    import typer

    from cdc.cli.main import app as whole

    program = typer.main.get_command(whole)
    merged = _task() | {"shard-mode": "pessimistic"}
    feeds = [*imported(_task()).feeds, *imported(merged).feeds]
    for line in (line for feed in feeds for line in commands(feed, Path("x.toml"))):
        words = shlex.split(line)[1:]
        command: Any = program
        while words and not words[0].startswith("-"):
            command = command.commands[words.pop(0)]
        known = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known


def test_all_that_is_in_the_way_is_said_at_once() -> None:
    task = _task()
    task |= {"shard-mode": "pessimistic", "task-mode": "some"}
    task["column-mappings"] = {}
    task["routes"]["users-rule"]["extract-source"] = {"source-regexp": "x", "target-column": "y"}
    task |= {"shard-mode": ""}
    task["filters"]["no-drops"]["action"] = "Do"
    task["expression-filter"]["odd"] |= {
        "update-old-value-expr": "a = 1",
        "update-new-value-expr": "a = 2",
    }
    with pytest.raises(DmTaskNotSupported) as refused:
        imported(task)
    message = refused.value.message
    for key in (
        "task-mode",
        "column-mappings",
        "routes.users-rule.extract-source",
        "filters.no-drops.action",
        "expression-filter.odd",
    ):
        assert f"{key}: " in message
    assert refused.value.object == "orders_task"


@pytest.mark.parametrize(
    ("key", "value", "mode"),
    [
        ("shard-mode", "pessimistic", "pessimistic"),
        ("shard-mode", "optimistic", "optimistic"),
        ("is-sharding", True, "pessimistic"),
        ("shard-mode", "", None),
    ],
)
def test_shards_of_one_source_become_one(key: str, value: Any, mode: str | None) -> None:
    task = _task()
    del task["mysql-instances"][1:]
    task[key] = value
    (one,) = imported(task).feeds
    assert check(one.config).shard_mode == mode


def test_shards_of_several_sources_are_nodes_of_one_upstream() -> None:
    task = _task() | {"shard-mode": "pessimistic"}
    (feed,) = imported(task, {"mysql-replica-01": yaml.safe_load(SOURCE)}).feeds
    assert (feed.feed, feed.upstream) == ("orders-task", "orders-task")
    assert feed.nodes == (
        ImportedNode("mysql-replica-01", "mysql://dm@127.0.0.1:3306", "mysql-bin.000001:4"),
        ImportedNode("mysql-replica-02", "", "e68f6068-53ec-11eb-9c5f-0242ac110003:1-22"),
    )
    config = check(tomllib.loads(toml_text(feed.config)))
    DdlFilter(config)
    # Each node's tables pass and are called as the rules of its own source say.
    matched, router = TableRules(config.filter.rules), _router(config)
    for instance, node in zip(task["mysql-instances"], feed.nodes, strict=True):
        (source,) = imported(task | {"mysql-instances": [instance]}).feeds
        own = check(source.config)
        alone, named = TableRules(own.filter.rules), _router(own)
        for schema, table in itertools.product(("shop", "crm1", "x"), ("users", "tmp_1", "t")):
            there = qualified(node.name, schema)
            assert matched.matches(there, table) == alone.matches(schema, table)
            assert router.target(there, table) == named.target(schema, table)


def _router(config: FeedConfig) -> TargetRouter:
    return TargetRouter.of(read_dispatchers(config.sink.get("dispatchers", ())), merging=True)


def test_sources_with_the_same_rules_need_no_names_of_nodes() -> None:
    task = _task() | {"shard-mode": "pessimistic"}
    names = ("db_1", "DB 2", "db.2")
    task["mysql-instances"] = [{**task["mysql-instances"][0], "source-id": name} for name in names]
    (feed,) = imported(task).feeds
    assert feed.config == {"shard-mode": "pessimistic", **FIRST}
    # Two of the names would be one.
    assert [node.name for node in feed.nodes] == ["n1", "n2", "n3"]


@pytest.mark.parametrize(("mode", "ours"), [("all", "initial"), ("full", "only")])
def test_rows_that_are_there_are_copied(mode: str, ours: str) -> None:
    task = _task()
    task["task-mode"] = mode
    made = imported(task)
    for feed in made.feeds:
        snapshot = check(feed.config).snapshot
        assert snapshot.mode == ours
        assert snapshot.create_tables is (ours != "none")
        assert feed.nodes[0].start == ""
    assert "make these" in dict(made.left)["task-mode"]
    # Shards' rows become one table's in the same way.
    [whole] = imported(task | {"shard-mode": "pessimistic"}).feeds
    assert len(whole.nodes) > 1
    assert check(whole.config).snapshot.mode == ours


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("task-mode", "some", "task-mode"),
        ("mysql-instances", [], "mysql-instances"),
        ("target-database", {}, "target-database"),
        ("filters", {"no-drops": {"events": ["precision decrease"]}}, "no counterpart"),
        ("block-allow-list", {"log": {"do-dbs": ["a"], "do-tables": [{"db-name": "b"}]}}, "no tab"),
    ],
)
def test_what_cannot_be_kept_is_refused(key: str, value: Any, what: str) -> None:
    task = _task()
    task[key] = value
    with pytest.raises(DmTaskNotSupported, match=what):
        imported(task)


def test_a_file_that_is_no_task_is_one_error(tmp_path: Path) -> None:
    file = tmp_path / "task.yaml"
    for text in ("a: [", "- 1", ""):
        file.write_text(text)
        done = CliRunner().invoke(app, ["import", str(file)])
        assert getattr(done.exception, "code", "") == "TG:ErrDMFileInvalid", text


def _matches(pattern: str, name: str) -> bool:
    """As DM's table selector: ``*`` at the end, ``?``, or an expression behind ``~``."""
    if pattern.startswith("~"):
        return re.search(pattern[1:], name) is not None
    text = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(text, name) is not None


def _passes(rules: dict[str, Any], schema: str, table: str) -> bool:
    """DM's order: databases first, then tables; an allow list before a block list."""
    if rules.get("do-dbs"):
        if not any(_matches(p, schema) for p in rules["do-dbs"]):
            return False
    elif any(_matches(p, schema) for p in rules.get("ignore-dbs", ())):
        return False

    def listed(key: str) -> bool:
        return any(
            _matches(r["db-name"], schema) and _matches(r["tbl-name"], table)
            for r in rules.get(key, ())
        )

    return listed("do-tables") if rules.get("do-tables") else not listed("ignore-tables")


def test_random_lists_let_the_same_tables_pass() -> None:
    drawn = random.Random(seeds.seed())
    schemas, tables = ["shop", "crm1", "crm2", "a.b"], ["users", "tmp_1", "tmp_2", "x y"]
    patterns = [*schemas, "crm*", "~^crm[0-9]$", "*"]
    names = [*tables, "tmp_?", "tmp_*", "~_[12]$", "*"]
    judged = 0
    for _ in range(400):
        rules: dict[str, Any] = {}
        for key in ("do-dbs", "ignore-dbs"):
            if drawn.random() < 0.5:
                rules[key] = drawn.sample(patterns, drawn.randint(1, 3))
        for key in ("do-tables", "ignore-tables"):
            if drawn.random() < 0.4:
                rules[key] = [
                    {"db-name": drawn.choice(patterns), "tbl-name": drawn.choice(names)}
                    for _ in range(drawn.randint(1, 3))
                ]
        task = _task()
        task["block-allow-list"] = {"log": rules}
        try:
            config = imported(task).feeds[0].config
        except DmTaskNotSupported:
            continue
        matched = TableRules(check(tomllib.loads(toml_text(config))).filter.rules)
        judged += 1
        for schema in schemas:
            for table in tables:
                wanted = _passes(rules, schema, table)
                assert matched.matches(schema, table) == wanted, (rules, schema, table)
    assert judged > 100


def test_columns_that_are_extracted_from_names_are_taken_over() -> None:
    task = _task() | {"shard-mode": "pessimistic", "task-mode": "all"}
    for instance in task["mysql-instances"]:
        instance["route-rules"] = ["users-rule"]
    given = {
        "extract-table": {"table-regexp": "^user(.*)$", "target-column": "c_table"},
        "extract-source": {"source-regexp": "-(.*)$", "target-column": "c_source"},
    }
    task["routes"]["users-rule"] |= given
    made = imported(task)
    (feed,) = made.feeds
    rules = [r for r in feed.config["sink"]["dispatchers"] if "extract-table" in r]
    assert rules
    assert all({key: rule[key] for key in given} == given for rule in rules)
    assert all(rule.extracts for rule in read_dispatchers(rules))
    assert feed.config["snapshot"]["create-tables"] is True
    assert "routes.users-rule.extract-source" in dict(made.left)
