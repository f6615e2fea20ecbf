"""An instance of Canal's as a changefeed: what the keys of its configuration become here.

Keys are those of ``instance.properties`` and ``canal.properties`` of Canal 1.1
(https://github.com/alibaba/canal/wiki/AdminGuide and .../Canal-Kafka-RocketMQ-QuickStart). What
would make other messages is refused, all of it at once; what is about how Canal works is listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cdc.base.errors import InvalidError
from cdc.cli import expressions
from cdc.cli.imported import (
    Findings,
    Imported,
    ImportedFeed,
    ImportedNode,
    plain_name,
    server_uri,
)
from cdc.cli.known_keys import KnownKeys

_REGEX: Final = "canal.instance.filter.regex"
_BLACK_REGEX: Final = "canal.instance.filter.black.regex"
_TOPICS: Final = "canal.mq.dynamicTopic"
_HASHES: Final = "canal.mq.partitionHash"
_COUNT: Final = "canal.mq.partitionsNum"
_JOURNAL: Final = "canal.instance.master.journal.name"
_BROKERS: Final = ("kafka.bootstrap.servers", "canal.mq.servers")
_COMPRESSION: Final = ("kafka.compression.type", "canal.mq.compressionType")
_KEYS: Final = "$pk$"
# Values with which messages are those that we make.
_AS_WE_DO: Final = {
    "canal.serverMode": "kafka",
    "canal.mq.flatMessage": "true",
    "canal.mq.database.hash": "true",
    "canal.mq.partition": "0",
    "canal.instance.filter.rows": "false",
}
# Where they are true, so much is left out.
_LEFT_OUT: Final = {
    "canal.instance.filter.query.ddl": "all ddl",
    "canal.instance.filter.dml.insert": "insert",
    "canal.instance.filter.dml.update": "update",
    "canal.instance.filter.dml.delete": "delete",
}
_FIELDS: Final = {
    "canal.instance.filter.field": "",
    "canal.instance.filter.black.field": "!",
}
_TAKEN: Final = frozenset(
    {
        *(_REGEX, _BLACK_REGEX, _TOPICS, _HASHES, _COUNT, _JOURNAL, *_BROKERS, *_COMPRESSION),
        *(*_LEFT_OUT, *_FIELDS, "canal.mq.topic", "canal.destinations"),
        *("canal.instance.master.address", "canal.instance.master.position"),
        *("canal.instance.master.gtid", "canal.instance.dbUsername"),
    }
)
# What is about how Canal works, by the beginning of its name.
_ELSEWHERE: Final = {
    "canal.instance.dbPassword": "give it with --password-file, or as TIDEGATE_PASSWORD",
    "canal.instance.pwdPublicKey": "give the password with --password-file",
    "canal.instance.enableDruid": "give the password with --password-file",
    "canal.instance.mysql.slaveId": "see [source] of server.toml",
    "canal.instance.gtidon": "positions are GTIDs where the server has them",
    "canal.instance.connectionCharset": "texts are read by their columns' character sets",
    "canal.instance.defaultDatabaseName": "it is about Canal's own connections",
    "canal.instance.master.timestamp": "give the time to upstream create --start",
    "canal.instance.master.": "it is about Canal's own connections",
    "canal.instance.standby.": "it is about Canal's own connections",
    "canal.instance.rds.": "it is about Canal's own connections",
    "canal.instance.tsdb.": "the schema's history is in the upstream's change log",
    "canal.instance.filter.druid.ddl": "statements are always read",
    "canal.instance.filter.transaction.entry": "messages are of rows and of schema changes",
    "canal.instance.filter.table.error": "what cannot be read stops its table",
    "canal.instance.filter.query.": "what changes nothing is no message",
    "canal.instance.filter.": "",
    "canal.instance.": "it is about how Canal works",
    "canal.mq.dynamicTopicPartitionNum": "give topics their partitions in Kafka",
    "canal.mq.enableDynamicQueuePartition": "give topics their partitions in Kafka",
    "canal.mq.accessChannel": "it is about another producer",
    "canal.mq.producerGroup": "it is about another producer",
    "canal.mq.namespace": "it is about another producer",
    "canal.mq.dynamicTag": "it is about another producer",
    "canal.mq.canalBatchSize": "windows are as large as there is work",
    "canal.mq.canalGetTimeout": "windows are as large as there is work",
    "canal.mq.": "say what the producer needs in the sink's URI, docs/messages.md",
    "kafka.": "say what the producer needs in the sink's URI, docs/messages.md",
    "rocketmq.": "it is about another producer",
    "rabbitmq.": "it is about another producer",
    "pulsarmq.": "it is about another producer",
    "canal.aliyun.": "it is about another producer",
    "canal.": "it is about how Canal works",
}
_KNOWN: Final = KnownKeys("key", _TAKEN, _AS_WE_DO, _ELSEWHERE)


class CanalNotSupported(InvalidError):
    """An instance whose messages no changefeed makes; the error has all of the reasons."""

    code = "TG:ErrCanalNotSupported"


def imported(properties: Mapping[str, str], position: str = "", brokers: str = "") -> Imported:
    """The changefeed of an instance, by the keys of both of its files.

    ``position`` is where it has stopped, ``brokers`` are Kafka's, where the files have none. Raises
    CanalNotSupported.
    """
    found = Findings()
    given = {key: value.strip() for key, value in properties.items() if value.strip()}
    _KNOWN.check(given, found)
    topic = given.get("canal.mq.topic", "")
    if not topic:
        found.refuse("canal.mq.topic", "there is none")
    config: dict[str, Any] = {"filter": {"rules": _rules(given, found)}}
    if left_out := [event for key, event in _LEFT_OUT.items() if given.get(key) == "true"]:
        config["filter"]["event-filters"] = [{"matcher": ["*.*"], "ignore-event": left_out}]
    config["sink"] = {"dispatchers": _dispatchers(given, found)}
    if columns := _columns(given, found):
        config["sink"]["column-selectors"] = columns
    name = plain_name(given.get("canal.destinations", "").split(",")[0] or topic, "canal")
    node = ImportedNode("", _uri(given), position or _start(given))
    sink_uri = _sink_uri(given, topic, brokers, found)
    if found.refused:
        raise CanalNotSupported(
            "; ".join(found.refused),
            object=name,
            hint="if consumers can do without, import a copy of the file without these",
        )
    return Imported(
        (ImportedFeed(name, name, (node,), config, sink_uri),), tuple(found.left.items())
    )


def _list(given: Mapping[str, str], key: str) -> Sequence[str]:
    return [text.strip() for text in re.split("[,;]", given.get(key, "")) if text.strip()]


def _rules(given: Mapping[str, str], found: Findings) -> list[str]:
    """What passes, without what is black."""
    chosen = [expressions.table(text, _REGEX, found) for text in _list(given, _REGEX)]
    black = [expressions.table(text, _BLACK_REGEX, found) for text in _list(given, _BLACK_REGEX)]
    return [*(chosen or ["*.*"]), *(f"!{rule}" for rule in black)]


def _dispatchers(given: Mapping[str, str], found: Findings) -> list[dict[str, Any]]:
    """Topics of tables, and how the rows of each are spread."""
    # Canal looks for a database only where no table matches.
    ordered = sorted(_list(given, _TOPICS), key=lambda text: "." not in text.rpartition(":")[2])
    topics = [_topic(text, found) for text in ordered]
    hashes = [_hash(text, found) for text in _list(given, _HASHES)]
    if len(topics) > 1:
        found.left[_TOPICS] = (
            "a table that several match goes to the topic of the first, not of each"
        )
    if not hashes:
        # All of a topic is in its first partition.
        return [*topics, {"matcher": ["*.*"], "partition": "table"}]
    every = hashes[0]["matcher"] == ["*.*"]
    if not topics:
        return hashes if every else [*hashes, {"matcher": ["*.*"], "partition": "table"}]
    if every:
        spread = {key: value for key, value in hashes[0].items() if key != "matcher"}
        return [{**rule, **spread} for rule in [*topics, {"matcher": ["*.*"]}]]
    if topics[0]["matcher"] == ["*.*"]:
        to = {"topic": topics[0]["topic"]}
        return [{**rule, **to} for rule in [*hashes, {"matcher": ["*.*"], "partition": "table"}]]
    found.refuse(
        _HASHES, f"neither it nor {_TOPICS} is for all tables: write sink.dispatchers by hand"
    )
    return []


def _topic(text: str, found: Findings) -> dict[str, Any]:
    r"""``[topic:]schema`` or ``[topic:]schema\.table``."""
    named, _, expression = text.rpartition(":")
    if "." in expression:
        matcher = expressions.table(expression, _TOPICS, found)
        return {"matcher": [matcher], "topic": named or "{schema}_{table}"}
    schema = expressions.pattern(expression, _TOPICS, found)
    return {"matcher": [f"{schema}.*"], "topic": named or "{schema}"}


def _hash(text: str, found: Findings) -> dict[str, Any]:
    r"""``schema\.table[:column^column]``, or ``$pk$`` for the primary key."""
    expression, _, columns = text.partition(":")
    rule: dict[str, Any] = {"matcher": [expressions.table(expression, _HASHES, found)]}
    if not columns:
        return {**rule, "partition": "table"}
    if columns == _KEYS:
        return {**rule, "partition": "index-value"}
    return {**rule, "partition": "columns", "columns": columns.split("^")}


def _columns(given: Mapping[str, str], found: Findings) -> list[dict[str, Any]]:
    """Columns by table: ``schema.table:column/column``."""
    selectors = []
    for key, sign in _FIELDS.items():
        for text in _list(given, key):
            name, _, columns = text.partition(":")
            first = ["*"] if sign else []
            matcher = expressions.table(name, key, found)
            chosen = [f"{sign}{column}" for column in columns.split("/") if column]
            selectors.append({"matcher": [matcher], "columns": [*first, *chosen]})
    return selectors


def _uri(given: Mapping[str, str]) -> str:
    host, _, port = given.get("canal.instance.master.address", "127.0.0.1:3306").rpartition(":")
    if not host:
        host, port = port, "3306"
    return server_uri(host, port, given.get("canal.instance.dbUsername", "canal"))


def _start(given: Mapping[str, str]) -> str:
    """Where Canal would begin, if its files say so."""
    if gtid := given.get("canal.instance.master.gtid"):
        return gtid
    file = given.get(_JOURNAL)
    return f"{file}:{given.get('canal.instance.master.position', '4')}" if file else ""


def _sink_uri(given: Mapping[str, str], topic: str, brokers: str, found: Findings) -> str:
    servers = next((given[key] for key in _BROKERS if key in given), brokers)
    if not servers:
        found.left[_BROKERS[0]] = "put Kafka's brokers into the sink's URI, or --brokers"
    uri = f"kafka://{servers or 'BROKERS'}/{topic}?protocol=canal-json&content-compatible=true"
    count = given.get(_COUNT) if _HASHES in given else "1"
    if count:
        uri += f"&partition-num={count}"
    compression = next((given[key] for key in _COMPRESSION if key in given), "")
    return uri + (f"&compression={compression}" if compression else "")
