"""Sink URIs: what is taken, what is refused, by which name, and that no password leaks."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from cdc.base.errors import InvalidError
from sink.codec.protocols import FORMATS
from sink.kafka.compression import Codec
from sink.kafka.settings import KafkaSettings

URI = "kafka://127.0.0.1:9092/t?protocol=canal-json"
DEBEZIUM = "kafka://127.0.0.1:9092/t?protocol=debezium"


def test_a_full_uri() -> None:
    s = KafkaSettings.parse(
        "kafka+ssl://a:9092,b/my.topic?protocol=canal-json&partition-num=6&replication-factor=3"
        "&max-message-bytes=65536&compression=zstd&kafka-client-id=x&enable-tidb-extension=true"
        "&required-acks=-1&auto-create-topic=false&insecure-skip-verify=true&kafka-version=2.4.0"
        "&sasl-user=u&sasl-password=p%40ss&sasl-mechanism=scram-sha-256&write-timeout=3s"
    )
    assert s.servers == ("a:9092", "b:9092")
    assert (s.topic, s.partition_num, s.compression) == ("my.topic", 6, Codec.ZSTD)
    assert s.exactly_once
    assert s.enable_tls
    config = s.client_config()
    assert config["security_protocol"] == "SASL_SSL"
    assert config["sasl_mechanism"] == "SCRAM-SHA-256"
    assert config["sasl_plain_password"] == "p@ss"
    assert "p@ss" not in repr(s) + str(s) + s.model_dump_json()
    assert pickle.loads(pickle.dumps(s)) == s


def test_section_and_uri_merge() -> None:
    s = KafkaSettings.parse(
        "kafka+ssl://h:1/t?compression=lz4",
        {
            "protocol": "canal-json",
            "compression": "gzip",
            "kafka_config": {"sasl_user": "u", "sasl-password": "secret"},
            "dispatchers": [{"matcher": ["a.*"], "partition": "columns", "columns": ["x"]}],
        },
    )
    assert s.compression is Codec.LZ4
    assert s.sasl_user == "u"
    assert s.dispatchers[0].columns == ("x",)


@pytest.mark.parametrize(
    ("uri", "config", "code"),
    [
        ("mysql://h:1/t", {}, "TG:ErrSinkURIInvalid"),
        ("kafka://h:1/?protocol=canal-json", {}, "TG:ErrSinkURIInvalid"),
        ("kafka:///t?protocol=canal-json", {}, "TG:ErrSinkURIInvalid"),
        ("kafka://h:x/t?protocol=canal-json", {}, "TG:ErrSinkURIInvalid"),
        ("kafka://u:pw@h:1/t?protocol=canal-json", {}, "TG:ErrSinkURIInvalid"),
        ("kafka://h:1/t%20x?protocol=canal-json", {}, "TG:ErrSinkURIInvalid"),
        ("kafka://h:1/t?protocol", {}, "TG:ErrSinkURIInvalid"),
        ("kafka://[h/t?protocol=canal-json", {}, "TG:ErrSinkURIInvalid"),
        ("kafka://h:1/t", {}, "TG:ErrSinkUnknownProtocol"),
        ("kafka://h:1/t?protocol=xml", {}, "TG:ErrSinkUnknownProtocol"),
        ("kafka://h:1/t?protocol=avro", {}, "TG:ErrSinkProtocolNotSupported"),
        (URI + "&partition-num=abc", {}, "TG:ErrSinkURIInvalid"),
        (URI + "&partition-num=0", {}, "TG:ErrSinkURIInvalid"),
        (URI + "&required-acks=x", {}, "TG:ErrSinkURIInvalid"),
        (URI + "&required-acks=1", {}, "TG:ErrSinkURIInvalid"),
        (URI + "&compression=brotli", {}, "TG:ErrSinkURIInvalid"),
        (URI + "&write-timeout=soon", {}, "TG:ErrSinkURIInvalid"),
        (URI + "&compression=lz4&compression=gzip", {}, "TG:ErrSinkURIInvalid"),
        (URI + "&cert=/x", {}, "TG:ErrSinkURIInvalid"),
        (URI + "&sasl-user=u", {}, "TG:ErrSinkURIInvalid"),
        (URI + "&compresion=lz4", {}, "TG:ErrSinkUnknownOption"),
        (URI, {"nonsense": 1}, "TG:ErrSinkUnknownOption"),
        (URI, {"debezium-disable-schema": True}, "TG:ErrSinkOptionNotSupported"),
        (DEBEZIUM + "&enable-tidb-extension=true", {}, "TG:ErrSinkOptionNotSupported"),
        (DEBEZIUM, {"content-compatible": False}, "TG:ErrSinkOptionNotSupported"),
        (DEBEZIUM, {"debezium": {"output-old": False}}, "TG:ErrSinkUnknownOption"),
        (URI, {"column-selectors": [{"columns": ["*"]}]}, "TG:ErrDispatcherInvalid"),
        (URI, {"kafka-config": 3}, "TG:ErrSinkURIInvalid"),
        (URI, {"dispatchers": 3}, "TG:ErrDispatcherInvalid"),
        (URI, {"dispatchers": [{"matcher": ["a"], "partition": "ts"}]}, "TG:ErrFilterRuleInvalid"),
        (URI, {"dispatchers": [{"matcher": ["a.*"], "colums": []}]}, "TG:ErrDispatcherInvalid"),
        (URI, {"dispatchers": [{"matcher": [], "partition": "ts"}]}, "TG:ErrDispatcherInvalid"),
    ],
)
def test_refused_with_a_hint(uri: str, config: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidError) as caught:
        KafkaSettings.parse(uri, config)
    assert caught.value.code == code
    assert caught.value.hint


def test_options_of_debezium() -> None:
    s = KafkaSettings.parse(
        DEBEZIUM + "&debezium-disable-schema=true", {"debezium": {"output-old-value": False}}
    )
    assert (s.debezium_disable_schema, s.debezium_output_old_value) == (True, False)
    s = KafkaSettings.parse(DEBEZIUM, {})
    assert (s.debezium_disable_schema, s.debezium_output_old_value) == (False, True)


def test_the_hint_names_every_protocol() -> None:
    with pytest.raises(InvalidError) as caught:
        KafkaSettings.parse("kafka://h:1/t?protocol=xml")
    assert all(f"protocol={p}" in caught.value.hint for p in FORMATS)


def test_a_typo_is_named() -> None:
    with pytest.raises(InvalidError, match="did you mean compression"):
        KafkaSettings.parse(URI + "&compresion=lz4")


@pytest.mark.parametrize("bad", ["partition-num=abc", "nonsense=1", "compression=x", "protocol=x"])
def test_errors_hold_no_password(bad: str) -> None:
    base = URI if not bad.startswith("protocol") else "kafka://h:1/t?a=b"
    with pytest.raises(InvalidError) as caught:
        KafkaSettings.parse(f"{base}&sasl-user=u&sasl-password=hunter2&{bad}")
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.to_dict())
