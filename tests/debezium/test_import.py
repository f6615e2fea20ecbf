"""A connector of Debezium's becomes a changefeed that lets the same tables pass."""

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
from cdc.cli.debezium import app
from cdc.cli.debezium_connector import ConnectorNotSupported, imported
from filter.rules import TableRules
from owner.replica_config import check
from sink.codec.protocols import Protocol
from sink.dispatch.read import read_dispatchers
from sink.kafka.settings import KafkaSettings
from tests import seeds

# As the connector's own documentation shows one.
CONNECTOR = {
    "name": "shop_connector",
    "config": {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "tasks.max": "1",
        "database.hostname": "db1",
        "database.port": "3306",
        "database.user": "debezium",
        "database.password": "dbz-secret",
        "database.server.id": "184054",
        "database.ssl.mode": "required",
        "topic.prefix": "fulfillment",
        "database.include.list": "shop",
        "table.include.list": r"shop\.orders,shop.item_.*",
        "column.exclude.list": r"shop\.orders\.note",
        "schema.history.internal.kafka.bootstrap.servers": "kafka:9092",
        "schema.history.internal.kafka.topic": "schemahistory.fulfillment",
        "include.schema.changes": "true",
        "skipped.operations": "t,d",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "key.converter.schemas.enable": "false",
        "heartbeat.interval.ms": "1000",
        "snapshot.mode": "initial",
    },
}
OFFSETS = {
    "offsets": [
        {
            "partition": {"server": "fulfillment"},
            "offset": {
                "ts_sec": 1795790000,
                "file": "binlog.000007",
                "pos": 4711,
                "gtids": "35bb1734-eacf-11f1-890b-02fc00000001:1-22,\n"
                "45bb1734-eacf-11f1-890b-02fc00000001:1-3",
            },
        }
    ]
}
CONFIG = {
    "filter": {
        "rules": ["shop.orders", "shop.item_*"],
        "event-filters": [{"matcher": ["*.*"], "ignore-event": ["delete"]}],
    },
    "sink": {
        "dispatchers": [
            {
                "matcher": ["*.*"],
                "topic": "fulfillment.{schema}.{table}",
                "partition": "index-value",
            }
        ],
        "column-selectors": [{"matcher": ["shop.orders"], "columns": ["*", "!note"]}],
    },
}


def _changed(**properties: str | None) -> dict[str, Any]:
    given = {**CONNECTOR["config"], **{k.replace("__", "."): v for k, v in properties.items()}}  # type: ignore[dict-item]
    return {key: value for key, value in given.items() if value is not None}


def _files(folder: Path) -> list[str]:
    (folder / "connector.json").write_text(json.dumps(CONNECTOR))
    (folder / "offsets.json").write_text(json.dumps(OFFSETS))
    words = ["import", str(folder / "connector.json"), "--output", str(folder)]
    return [*words, "--offsets", str(folder / "offsets.json")]


def test_the_command_writes_a_file_and_says_what_to_run(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, _files(tmp_path))
    assert done.exit_code == 0, done.output
    file = tmp_path / "shop-connector.toml"
    assert tomllib.loads(file.read_text()) == CONFIG
    upstream, feed, *_ = done.output.splitlines()
    assert shlex.split(upstream)[-4:] == [
        "--uri", "mysql://debezium@db1:3306/?ssl-mode=required", "--start",
        "35bb1734-eacf-11f1-890b-02fc00000001:1-22,45bb1734-eacf-11f1-890b-02fc00000001:1-3",
    ]  # fmt: skip
    sink = "kafka://kafka:9092/fulfillment?protocol=debezium&debezium-disable-schema=true"
    assert shlex.split(feed)[4:] == [
        "-c", "shop-connector", "-u", "shop-connector", "--sink-uri", sink,
        "--config", str(file), "--start-ts", "earliest",
    ]  # fmt: skip
    assert "heartbeat.interval.ms: " in done.output
    assert "dbz-secret" not in done.output + file.read_text()
    # A server would take both.
    check(CONFIG)
    assert KafkaSettings.parse(sink).protocol is Protocol.DEBEZIUM
    read_dispatchers(CONFIG["sink"]["dispatchers"])


def test_without_offsets_rows_come_first() -> None:
    (made,) = imported(_changed(), None, "other:1").feeds
    assert made.config["snapshot"] == {"mode": "initial"}
    assert made.nodes[0].start == ""
    assert made.sink_uri.startswith("kafka://other:1/")
    (made,) = imported(_changed(snapshot__mode="no_data")).feeds
    assert "snapshot" not in made.config


def test_properties_as_lines(tmp_path: Path) -> None:
    file = tmp_path / "connector.properties"
    lines = [f"{key} = {value}" for key, value in CONNECTOR["config"].items()]  # type: ignore[attr-defined]
    file.write_text("# Connect's own\nname=shop_connector\n\n" + "\n".join(lines) + "\n")
    done = CliRunner().invoke(app, ["import", str(file), "--output", str(tmp_path), "--json"])
    (made,) = json.loads(done.output)["changefeeds"]
    assert made["config"] == {**CONFIG, "snapshot": {"mode": "initial"}}


@pytest.mark.parametrize(
    ("mode", "ours"),
    [("verify-full", "verify_identity"), ("disable", "disabled"), ("preferred", None)],
)
def test_words_for_tls(mode: str, ours: str | None) -> None:
    (node,) = imported(_changed(database__ssl__mode=mode)).feeds[0].nodes
    assert node.uri == "mysql://debezium@db1:3306" + (f"/?ssl-mode={ours}" if ours else "")


def test_all_that_is_in_the_way_is_said_at_once() -> None:
    properties = _changed(
        transforms="unwrap",
        transforms__unwrap__type="io.debezium.transforms.ExtractNewRecordState",
        decimal__handling__mode="string",
        message__key__columns="shop.orders:a",
        value__converter="io.confluent.connect.avro.AvroConverter",
        table__include__list=r"shop\.a,other\.b",
        topic__prefix=None,
        skipped__operations="x",
        snapshot__mode="custom",
    )
    with pytest.raises(ConnectorNotSupported) as refused:
        imported(properties, {"snapshot": True})
    for key in (
        *("transforms", "decimal.handling.mode", "message.key.columns", "value.converter"),
        *("table.include.list", "topic.prefix", "skipped.operations", "snapshot.mode"),
        *("offset.snapshot", "offset"),
    ):
        assert f"{key}: " in refused.value.message
    # What belongs to a transformation is said once.
    assert "transforms.unwrap" not in refused.value.message


@pytest.mark.parametrize(
    ("offset", "start", "again"),
    [
        ({"file": "bin.000002", "pos": 300}, "bin.000002:300", False),
        ({"file": "bin.000002", "pos": 300, "event": 2, "row": 1}, "bin.000002:300", True),
        ({"gtids": "0-1-22", "file": "b.01", "pos": 4, "snapshot": "false"}, "0-1-22", False),
    ],
)
def test_where_it_stopped(offset: dict[str, Any], start: str, again: bool) -> None:
    made = imported(_changed(), offset)
    assert made.feeds[0].nodes[0].start == start
    assert ("offset.event" in dict(made.left)) is again


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"config": 3}', '{"offsets": []}'])
def test_files_that_are_none(tmp_path: Path, text: str) -> None:
    words = _files(tmp_path)
    name = "offsets.json" if "offsets" in text else "connector.json"
    (tmp_path / name).write_text(text)
    failed = CliRunner().invoke(app, words).exception
    assert isinstance(failed, TidegateError)
    assert failed.code == "TG:ErrConnectorFileInvalid"
    assert name in str(failed)


EXPRESSIONS = (
    r"shop\.orders", "shop.orders", r"shop\..*", "shop.*", r".*\.orders", r"shop\.(a|b)_\d+",
    r"shop_[0-9]+\.orders", r"crm.*\.a.*", r"SHOP\.Orders", "shop.a_.*", r"(shop|crm)\.a(b|_1)?",
)  # fmt: skip
UNCLEAR = (r"shop\.a\.b", "shop.a.b.c", "shop", r"shop\.a|crm\.b", r"shop|crm\.a", r"shop\.a.b")
NAMES = [
    f"{schema}.{table}"
    for schema, table in itertools.product(
        ("shop", "shop_1", "shop_x", "shop2", "crm", "crm9", "Shop", "x"),
        ("orders", "a_1", "b_22", "a", "ab", "c_1", "ORDERS"),
    )
]


@pytest.mark.parametrize("round_", range(40))
def test_the_same_tables_pass(round_: int) -> None:
    """Debezium's own rule: an expression of the list matches the whole name, in any case."""
    rng = random.Random(seeds.seed() + round_)
    key = rng.choice(("table.include.list", "table.exclude.list"))
    chosen = rng.sample(EXPRESSIONS * 2 + UNCLEAR, rng.randint(1, 3))
    properties = _changed(database__include__list=None, table__include__list=None)
    given = {**properties, key: ",".join(chosen)}
    if any(text in chosen for text in UNCLEAR):
        with pytest.raises(ConnectorNotSupported, match=re.escape(key)):
            imported(given)
        return
    (made,) = imported(given).feeds
    rules = TableRules(made.config["filter"]["rules"], case_sensitive=False)
    for name in NAMES:
        fits = any(re.fullmatch(text, name, re.IGNORECASE) for text in chosen)
        passes = fits if key == "table.include.list" else not fits
        assert rules.matches(*name.split(".")) is passes, (name, chosen, made.config["filter"])
