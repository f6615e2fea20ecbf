"""An instance of Canal's becomes a changefeed that lets the same tables pass."""

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
from typer.testing import CliRunner

from cdc.base.errors import TidegateError
from cdc.cli.canal import app
from cdc.cli.canal_config import CanalNotSupported, imported
from filter.rules import TableRules
from owner.replica_config import check
from sink.codec.protocols import Protocol
from sink.dispatch.read import read_dispatchers
from sink.kafka.settings import KafkaSettings
from tests import seeds

# As Canal's own files are written: a backslash of an expression is two.
INSTANCE = r"""
# mysql serverId
canal.instance.mysql.slaveId=0
canal.instance.gtidon=false
canal.instance.master.address=db1:3307
canal.instance.master.journal.name=
canal.instance.dbUsername=canal
canal.instance.dbPassword=cn-secret
canal.instance.connectionCharset = UTF-8
canal.instance.tsdb.enable=true
canal.instance.filter.regex=shop\\.orders,shop\\.item_.*
canal.instance.filter.black.regex=mysql\\.slave_.*
canal.instance.filter.black.field=shop.orders:note/\
  secret
canal.mq.topic=example
canal.mq.dynamicTopic=.*\\..*
canal.mq.partitionsNum=3
canal.mq.partitionHash=.*\\..*:$pk$
"""
SERVER = """
canal.serverMode = kafka
canal.destinations = example_1
canal.mq.flatMessage = true
kafka.bootstrap.servers = kafka:9092
kafka.compression.type = none
canal.instance.filter.query.ddl = true
canal.instance.filter.dml.delete = true
canal.instance.filter.dml.insert = false
canal.zkServers =
canal.instance.parser.parallel = true
"""
META = {
    "clientDatas": [
        {
            "clientIdentity": {"clientId": 1001, "destination": "example", "filter": ""},
            "cursor": {
                "identity": {"slaveId": -1, "sourceAddress": {"address": "db1", "port": 3307}},
                "postion": {
                    "gtid": "", "included": False, "journalName": "binlog.000007",
                    "position": 4711, "serverId": 1, "timestamp": 1795790000000,
                },
            },
        }
    ],
    "destination": "example",
}  # fmt: skip
EVENTS = {"matcher": ["*.*"], "ignore-event": ["all ddl", "delete"]}
RULE = {"matcher": ["*.*"], "topic": "{schema}_{table}", "partition": "index-value"}
CONFIG = {
    "filter": {
        "rules": ["shop.orders", "shop.item_*", "!mysql.slave_*"],
        "event-filters": [EVENTS],
    },
    "sink": {
        "dispatchers": [RULE, {"matcher": ["*.*"], "partition": "index-value"}],
        "column-selectors": [{"matcher": ["shop.orders"], "columns": ["*", "!note", "!secret"]}],
    },
}
SINK = "kafka://kafka:9092/example?protocol=canal-json&content-compatible=true&partition-num=3"


def _files(folder: Path) -> list[str]:
    (folder / "instance.properties").write_text(INSTANCE)
    (folder / "canal.properties").write_text(SERVER)
    (folder / "meta.dat").write_text(json.dumps(META))
    words = ["import", str(folder / "instance.properties"), "--output", str(folder)]
    return [*words, "--server", str(folder / "canal.properties")]


def _made(**keys: str) -> dict[str, Any]:
    given = {"canal.mq.topic": "t", **{k.replace("__", "."): v for k, v in keys.items()}}
    config: dict[str, Any] = imported(given).feeds[0].config
    check(config)
    return config


def test_the_command_writes_a_file_and_says_what_to_run(tmp_path: Path) -> None:
    words = _files(tmp_path)
    done = CliRunner().invoke(app, [*words, "--meta", str(tmp_path / "meta.dat")])
    assert done.exit_code == 0, done.output
    file = tmp_path / "example-1.toml"
    assert tomllib.loads(file.read_text()) == CONFIG
    upstream, feed, *_ = done.output.splitlines()
    assert shlex.split(upstream)[-4:] == [
        "--uri", "mysql://canal@db1:3307", "--start", "binlog.000007:4711",
    ]  # fmt: skip
    assert shlex.split(feed)[4:] == [
        "-c", "example-1", "-u", "example-1", "--sink-uri", f"{SINK}&compression=none",
        "--config", str(file), "--start-ts", "earliest",
    ]  # fmt: skip
    for key in ("canal.instance.mysql.slaveId", "canal.instance.tsdb.enable"):
        assert f"  {key}: " in done.output
    assert "cn-secret" not in done.output + file.read_text()
    # A server would take both.
    check(CONFIG)
    assert KafkaSettings.parse(SINK).protocol is Protocol.CANAL_JSON
    read_dispatchers(CONFIG["sink"]["dispatchers"])


def test_an_instance_alone_goes_to_the_first_partition() -> None:
    made = imported({"canal.mq.topic": "t"}, "bin.000002:4", "k:1")
    (feed,) = made.feeds
    assert feed.nodes[0].uri == "mysql://canal@127.0.0.1:3306"
    assert feed.nodes[0].start == "bin.000002:4"
    uri = "kafka://k:1/t?protocol=canal-json&content-compatible=true&partition-num=1"
    assert feed.sink_uri == uri
    assert feed.config == {
        "filter": {"rules": ["*.*"]},
        "sink": {"dispatchers": [{"matcher": ["*.*"], "partition": "table"}]},
    }


def test_gtids_are_where_it_stopped(tmp_path: Path) -> None:
    words = _files(tmp_path)
    gtids = "35bb1734-eacf-11f1-890b-02fc00000001:1-22"
    place = META["clientDatas"][0]["cursor"]["postion"] | {"gtid": gtids}  # type: ignore[index]
    (tmp_path / "cursor.json").write_text(json.dumps({"postion": place}))
    done = CliRunner().invoke(app, [*words, "--meta", str(tmp_path / "cursor.json"), "--json"])
    (made,) = json.loads(done.output)["changefeeds"]
    assert f"--start {gtids}" in made["commands"][0]


@pytest.mark.parametrize(
    ("topics", "hashes", "rules"),
    [
        (
            r"crm,shop\..*,old:shop\.a", "",
            [
                {"matcher": ["shop.*"], "topic": "{schema}_{table}"},
                {"matcher": ["shop.a"], "topic": "old"},
                {"matcher": ["crm.*"], "topic": "{schema}"},
                {"matcher": ["*.*"], "partition": "table"},
            ],
        ),
        (
            "", r"shop\.a:x^y,shop\.b:$pk$",
            [
                {"matcher": ["shop.a"], "partition": "columns", "columns": ["x", "y"]},
                {"matcher": ["shop.b"], "partition": "index-value"},
                {"matcher": ["*.*"], "partition": "table"},
            ],
        ),
        (
            r"all:.*\..*", r"shop\.a:x",
            [
                {"matcher": ["shop.a"], "partition": "columns", "columns": ["x"], "topic": "all"},
                {"matcher": ["*.*"], "partition": "table", "topic": "all"},
            ],
        ),
    ],
)  # fmt: skip
def test_topics_and_partitions(topics: str, hashes: str, rules: list[dict[str, Any]]) -> None:
    given = {"canal__mq__dynamicTopic": topics, "canal__mq__partitionHash": hashes}
    assert _made(**given)["sink"]["dispatchers"] == rules
    read_dispatchers(rules)


def test_all_that_is_in_the_way_is_said_at_once() -> None:
    given = {
        "canal.serverMode": "rocketMQ",
        "canal.mq.flatMessage": "false",
        "canal.mq.partition": "2",
        "canal.mq.dynamicTopic": r"a\.b",
        "canal.mq.partitionHash": r"a\.b:x",
        "canal.instance.filter.regex": r"a\.b\.c",
        "canal.instance.filter.rows": "true",
        "canal.instance.filter.unheard": "1",
        "canal.instance.dbPassword": "cn-secret",
        "other": "1",
    }
    with pytest.raises(CanalNotSupported) as refused:
        imported(given)
    for key in (set(given) | {"canal.mq.topic"}) - {
        "canal.mq.dynamicTopic", "canal.instance.dbPassword"
    }:  # fmt: skip
        assert f"{key}: " in refused.value.message
    assert "cn-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("instance.properties", b"no sign in this line\n"), ("instance.properties", b"\xff=1\n"),
        ("canal.properties", b"nor here\n"), ("meta.dat", b"{"), ("meta.dat", b'{"a":[]}'),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path: Path, name: str, content: bytes) -> None:
    words = [*_files(tmp_path), "--meta", str(tmp_path / "meta.dat")]
    (tmp_path / name).write_bytes(content)
    failed = CliRunner().invoke(app, words).exception
    assert isinstance(failed, TidegateError)
    assert failed.code == "TG:ErrCanalFileInvalid"
    assert name in str(failed)


EXPRESSIONS = (
    r".*\..*", r"shop\.orders", "shop.orders", r"shop\..*", r".*\.orders", r"shop\.(a|b)_\d+",
    r"shop_[0-9]+\.orders", r"crm.*\.a.*", r"SHOP\.Orders", r"(shop|crm)\.a(b|_1)?",
)  # fmt: skip
NAMES = [
    f"{schema}.{table}"
    for schema, table in itertools.product(
        ("shop", "shop_1", "shop_x", "crm", "crm9", "Shop", "x"),
        ("orders", "a_1", "b_22", "a", "ab", "c_1", "ORDERS"),
    )
]


@pytest.mark.parametrize("round_", range(40))
def test_the_same_tables_pass(round_: int) -> None:
    """Canal's own rule: one matches the whole name, in any case, and nothing black does."""
    rng = random.Random(seeds.seed() + round_)
    chosen = rng.sample(EXPRESSIONS, rng.randint(0, 3))
    black = rng.sample(EXPRESSIONS, rng.randint(0, 2))
    made = _made(
        canal__instance__filter__regex=",".join(chosen),
        canal__instance__filter__black__regex=",".join(black),
    )
    rules = TableRules(made["filter"]["rules"], case_sensitive=False)
    for name in NAMES:
        passes, out = (
            any(re.fullmatch(text, name, re.IGNORECASE) for text in texts)
            for texts in (chosen or [r".*\..*"], black)
        )
        assert rules.matches(*name.split(".")) is (passes and not out), (name, chosen, black)
