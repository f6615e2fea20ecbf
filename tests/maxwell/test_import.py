"""A configuration of Maxwell's becomes a changefeed that lets the same tables pass."""

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
from cdc.cli.maxwell import app
from cdc.cli.maxwell_config import MaxwellNotSupported, imported
from filter.rules import TableRules
from owner.replica_config import check
from sink.codec.protocols import Protocol
from sink.dispatch.read import read_dispatchers
from sink.kafka.settings import KafkaSettings
from tests import seeds

GIVEN = {
    "log_level": "info",
    "producer": "kafka",
    "kafka.bootstrap.servers": "kafka1:9092,kafka2:9092",
    "kafka.acks": "all",
    "kafka.compression.type": "lz4",
    "kafka_topic": "shop.%{database}.%{table}",
    "producer_partition_by": "primary_key",
    "host": "db1",
    "port": "3307",
    "user": "reader",
    "password": "mx-secret",
    "ssl": "REQUIRED",
    "client_id": "Shop_1",
    "filter": "exclude: *.*, include: shop.*, exclude: shop./^tmp_/, include: `odd-db`.t",
    "output_commit_info": "true",
    "gtid_mode": "true",
    "metrics_type": "http",
}
CONFIG = {
    "case-sensitive": True,
    "filter": {
        "rules": ["*.*", "!*.*", "shop.*", "!shop./^tmp_/", "`odd-db`.t", "!maxwell.*"],
    },
    "sink": {
        "dispatchers": [
            {"matcher": ["*.*"], "topic": "shop.{schema}.{table}", "partition": "index-value"}
        ],
    },
}
GTIDS = "35bb1734-eacf-11f1-890b-02fc00000001:1-22"


def _changed(**keys: str | None) -> dict[str, str]:
    given = {**GIVEN, **{k.replace("__", "."): v for k, v in keys.items()}}
    return {key: value for key, value in given.items() if value is not None}


def _file(folder: Path, given: dict[str, str]) -> Path:
    file = folder / "config.properties"
    lines = "\n".join(f"{key}={value}" for key, value in given.items())
    file.write_text(f"# Maxwell's own\n\n{lines}\n")
    return file


def test_the_command_writes_a_file_and_says_what_to_run(tmp_path: Path) -> None:
    words = ["import", str(_file(tmp_path, GIVEN)), "--output", str(tmp_path)]
    done = CliRunner().invoke(app, [*words, "--position", GTIDS])
    assert done.exit_code == 0, done.output
    file = tmp_path / "Shop-1.toml"
    assert tomllib.loads(file.read_text()) == CONFIG
    upstream, feed, *_ = done.output.splitlines()
    assert shlex.split(upstream)[-4:] == [
        "--uri", "mysql://reader@db1:3307/?ssl-mode=required", "--start", GTIDS,
    ]  # fmt: skip
    sink = "kafka://kafka1:9092,kafka2:9092/shop?protocol=maxwell&compression=lz4"
    assert shlex.split(feed)[4:] == [
        "-c", "Shop-1", "-u", "Shop-1", "--sink-uri", sink,
        "--config", str(file), "--start-ts", "earliest",
    ]  # fmt: skip
    for key in ("kafka.acks", "output_commit_info", "metrics_type"):
        assert f"  {key}: " in done.output
    assert "mx-secret" not in done.output + file.read_text()
    # A server would take both.
    check(CONFIG)
    assert KafkaSettings.parse(sink).protocol is Protocol.MAXWELL
    read_dispatchers(CONFIG["sink"]["dispatchers"])  # type: ignore[index]


def test_defaults_are_those_of_maxwell(tmp_path: Path) -> None:
    made = imported({"producer": "kafka"}, brokers="k:1")
    (feed,) = made.feeds
    assert feed.nodes[0].uri == "mysql://maxwell@localhost:3306"
    assert feed.nodes[0].start == ""
    assert feed.sink_uri == "kafka://k:1/maxwell?protocol=maxwell"
    assert feed.config == {
        "filter": {"rules": ["*.*", "!maxwell.*"]},
        "sink": {"dispatchers": [{"matcher": ["*.*"], "partition": "table"}]},
    }
    assert "producer_partition_by" in dict(made.left)
    check(feed.config)


@pytest.mark.parametrize(
    ("keys", "uri", "start"),
    [
        ({"replication_host": "r", "replication_user": "u"}, "mysql://u@r:3307/", ""),
        ({"init_position": "bin.07:99:0"}, "mysql://reader@db1:3307/", "bin.07:99"),
    ],
)
def test_the_server_whose_binlog_is_read(keys: dict[str, str], uri: str, start: str) -> None:
    (node,) = imported(_changed(**keys)).feeds[0].nodes
    assert node.uri.startswith(uri)
    assert node.start == start


def test_columns_choose_the_partition() -> None:
    given = _changed(producer_partition_by="column", producer_partition_columns="a, b")
    (rule,) = imported(given).feeds[0].config["sink"]["dispatchers"]
    assert (rule["partition"], rule["columns"]) == ("columns", ["a", "b"])
    read_dispatchers([rule])


def test_all_that_is_in_the_way_is_said_at_once() -> None:
    given = _changed(
        producer="kinesis",
        javascript="/f.js",
        kafka_key_format="array",
        output_ddl="true",
        encrypt="data",
        kafka_topic="x_%{type}",
        producer_partition_by="transaction_id",
        filter="exclude: a.b.c = 1, include: %",
        include_dbs="shop",
        ssl="SOME",
        unheard_of="1",
    )
    with pytest.raises(MaxwellNotSupported) as refused:
        imported(given)
    for key in (
        *("producer", "javascript", "kafka_key_format", "output_ddl", "encrypt", "kafka_topic"),
        *("producer_partition_by", "filter", "include_dbs", "ssl", "unheard_of"),
    ):
        assert f"{key}: " in refused.value.message
    assert "mx-secret" not in str(refused.value)


def test_a_producer_that_is_not_named_is_none_of_kafka() -> None:
    with pytest.raises(MaxwellNotSupported, match="producer: is stdout"):
        imported(_changed(producer=None))


@pytest.mark.parametrize("content", [b"no sign in this line\n", b"\xff=1\n", None])
def test_files_that_are_none(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "config.properties"
    if content is not None:
        file.write_bytes(content)
    failed = CliRunner().invoke(app, ["import", str(file)]).exception
    assert isinstance(failed, TidegateError)
    assert failed.code == "TG:ErrMaxwellFileInvalid"
    assert "config.properties" in str(failed)


def test_what_it_says_as_json(tmp_path: Path) -> None:
    words = ["import", str(_file(tmp_path, GIVEN)), "--output", str(tmp_path), "--json"]
    (made,) = json.loads(CliRunner().invoke(app, words).output)["changefeeds"]
    assert made["config"] == CONFIG


# As a filter has them, and the expression that a name must have somewhere in it.
_NAMES = {
    "*": "", "shop": r"\Ashop\Z", "`shop`": r"\Ashop\Z", "/op/": "op", r"/^a\d+$/": r"^a\d+$",
    "/x|Shop/": "x|Shop", "t_1": r"\At_1\Z", "/a\\/b/": "a/b",
}  # fmt: skip
_TABLES = list(
    itertools.product(
        ("shop", "Shop", "a1", "a1x", "xop", "maxwell"), ("t_1", "t_2", "a12", "shop", "a/b")
    )
)


@pytest.mark.parametrize("round_", range(40))
def test_the_same_tables_pass(round_: int) -> None:
    """Maxwell's own rule: all pass but what the last rule that matches takes out."""
    rng = random.Random(seeds.seed() + round_)
    rules = [
        (rng.choice(("include", "exclude", "blacklist")), *rng.choices(list(_NAMES), k=2))
        for _ in range(rng.randint(1, 5))
    ]
    text = ",".join(f" {kind}: {schema}.{table}" for kind, schema, table in rules)
    config: dict[str, Any] = imported(_changed(filter=text)).feeds[0].config
    check(config)
    ours = TableRules(config["filter"]["rules"], case_sensitive=config["case-sensitive"])
    for schema, table in _TABLES:
        passes = True
        for kind, of_schema, of_table in rules:
            if re.search(_NAMES[of_schema], schema) and re.search(_NAMES[of_table], table):
                passes = kind == "include"
        assert ours.matches(schema, table) is (passes and schema != "maxwell"), (schema, table)
