"""A configuration of Maxwell's as a changefeed: what its keys become here.

Keys are those of https://maxwells-daemon.io/config/ and filters those of
https://maxwells-daemon.io/filtering/. What would make other messages is refused, all of it at once;
what is about how Maxwell works is listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cdc.base.errors import InvalidError
from cdc.cli.imported import (
    Findings,
    Imported,
    ImportedFeed,
    ImportedNode,
    plain_name,
    server_uri,
)
from cdc.cli.known_keys import KnownKeys

_TRUE: Final = "true"
# Values with which messages are those that we make.
_AS_WE_DO: Final = {
    "producer": "kafka",
    "kafka_key_format": "hash",
    "output_binlog_position": "false",
    "output_gtid_position": "false",
    "output_null_zerodates": "false",
    "output_nulls": _TRUE,
    "output_server_id": "false",
    "output_thread_id": "false",
    "output_schema_id": "false",
    "output_row_query": "false",
    "output_primary_keys": "false",
    "output_primary_key_columns": "false",
    "output_push_timestamp": "false",
    "output_naming_strategy": "none",
    "output_xoffset": "false",
    "output_ddl": "false",
    "row_query_max_length": "0",
    "encrypt": "none",
}
_REFUSED: Final = {
    "javascript": "a changefeed runs no program of yours over rows",
    "custom_producer.factory": "there is none of your own",
    "include_dbs": "write it as filter",
    "exclude_dbs": "write it as filter",
    "include_tables": "write it as filter",
    "exclude_tables": "write it as filter",
    "blacklist_dbs": "write it as filter",
    "blacklist_tables": "write it as filter",
    "include_column_values": "see [filter] event-filters of a file of ours",
    "exclude_columns": "name them in [sink] column-selectors of a file of ours",
    "schema_host": "is only known as replication_host here",
    "dead_letter_topic": "a row that cannot be sent stops the changefeed, and is not lost",
}
_TAKEN: Final = frozenset(
    "host port user ssl replication_host replication_port replication_user replication_ssl"
    " schema_database kafka.bootstrap.servers kafka_topic filter client_id init_position"
    " producer_partition_by producer_partition_columns kafka.compression.type".split()
)
_CONNECTION: Final = "it is about Maxwell's own connections"
_PRODUCER: Final = "it is about another producer"
# What is about how Maxwell works, by the beginning of its name.
_ELSEWHERE: Final = {
    "password": "give it with --password-file, or as TIDEGATE_PASSWORD",
    "replication_password": "give it with --password-file, or as TIDEGATE_PASSWORD",
    "replication_": _CONNECTION,
    "schema_": _CONNECTION,
    "jdbc_options": _CONNECTION,
    "binlog_": _CONNECTION,
    "replica_server_id": "see [source] of server.toml",
    "gtid_mode": "positions are GTIDs where the server has them",
    "kafka.": "say what the producer needs in the sink's URI, docs/messages.md",
    "kafka_partition_hash": "partitions are chosen by TiCDC's hashes",
    "kafka_version": "there is one client",
    "ddl_kafka_topic": "schema changes are not sent",
    "producer_partition_hash": "partitions are chosen by TiCDC's hashes",
    "producer_": "it is about how Maxwell works",
    "ignore_producer_error": "a row that cannot be sent stops the changefeed, and is not lost",
    "output_commit_info": "messages have xid, and no commit",
    "bootstrapper": "rows are copied by cdc cli snapshot start",
    "recapture_schema": "the schema's history is in the upstream's change log",
    "master_recovery": "a log goes on with GTIDs on another server",
    "buffered_": "nothing is queued in memory: rows are read from the log",
    "http_": "see server.toml",
    "kinesis_": _PRODUCER,
    "sqs_": _PRODUCER,
    "sns_": _PRODUCER,
    "rabbitmq_": _PRODUCER,
    "redis_": _PRODUCER,
    "nats_": _PRODUCER,
    "pubsub_": _PRODUCER,
    "bigquery_": _PRODUCER,
    "output_file": _PRODUCER,
    "metrics_": "metrics are at /metrics",
    "log_level": "see server.toml",
    "heartbeat": "nothing is written to the upstream",
    "env_config_prefix": "variables of the environment are not read here",
    "daemon": "it is about how Maxwell works",
    "replay": "it is about how Maxwell works",
    "ha": "several captures are one cluster, docs/store.md",
    "jgroups_": "several captures are one cluster, docs/store.md",
    "raft_": "several captures are one cluster, docs/store.md",
}
_KEYS: Final = KnownKeys("key", _TAKEN, _AS_WE_DO, _ELSEWHERE, _REFUSED)
_PARTITIONS: Final = {
    "database": "table",
    "table": "table",
    "primary_key": "index-value",
    "column": "columns",
}
# MySQL's words; PREFERRED becomes no TLS.
_SSL: Final = ("disabled", "required", "verify_ca", "verify_identity")
_RULE: Final = re.compile(
    r"\s*(?P<kind>include|exclude|blacklist)\s*:\s*(?P<schema>/(?:[^/\\]|\\.)*/|`[^`]*`|\*|[\w$\-]+)"
    r"\.(?P<table>/(?:[^/\\]|\\.)*/|`[^`]*`|\*|[\w$\-]+)(?P<column>\.[^,]*)?\s*(?:,|\Z)",
    re.IGNORECASE,
)


class MaxwellNotSupported(InvalidError):
    """A configuration whose messages no changefeed makes; the error has all of the reasons."""

    code = "TG:ErrMaxwellNotSupported"


def imported(properties: Mapping[str, str], position: str = "", brokers: str = "") -> Imported:
    """The changefeed of a configuration; ``position`` is where Maxwell has stopped.

    ``brokers`` are Kafka's, where the configuration has none. Raises MaxwellNotSupported.
    """
    found = Findings()
    given = dict(properties)
    _check(given, found)
    topic = given.get("kafka_topic", "maxwell")
    config: dict[str, Any] = {
        "filter": {"rules": _rules(given, found)},
        "sink": {"dispatchers": [_dispatcher(given, topic, found)]},
    }
    if given.get("filter"):
        # Names are what they are there, and A is not a.
        config = {"case-sensitive": True, **config}
    plain_topic = re.sub(r"%\{\w+\}", "", topic).strip("._-") or "maxwell"
    name = plain_name(given.get("client_id", "maxwell"), "maxwell")
    node = ImportedNode("", _uri(given, found), position or _initial(given))
    servers = given.get("kafka.bootstrap.servers") or brokers
    if not servers:
        found.left["kafka.bootstrap.servers"] = "put Kafka's brokers into the sink's URI"
    compression = given.get("kafka.compression.type", "")
    more = f"&compression={compression}" if compression else ""
    sink_uri = f"kafka://{servers or 'BROKERS'}/{plain_topic}?protocol=maxwell{more}"
    if found.refused:
        raise MaxwellNotSupported(
            "; ".join(found.refused),
            object=given.get("client_id", "maxwell"),
            hint="if consumers can do without, import a copy of the file without these",
        )
    feed = ImportedFeed(name, name, (node,), config, sink_uri)
    return Imported((feed,), tuple(found.left.items()))


def _check(given: Mapping[str, str], found: Findings) -> None:
    """What must be as we do it, and what is known to be of no matter."""
    _KEYS.check(given, found)
    if "producer" not in given:
        found.refuse("producer", "is stdout, not kafka")


def _rules(given: Mapping[str, str], found: Findings) -> list[str]:
    """Maxwell's filter as rules: of both the last that matches decides.

    There what none matches is sent, and its own database never is.
    """
    rules, text, at = ["*.*"], given.get("filter", ""), 0
    while at < len(text):
        rule = _RULE.match(text, at)
        if rule is None:
            found.refuse("filter", f"{text[at:].strip()!r} is no rule for a table")
            break
        at = rule.end()
        if rule["column"]:
            found.refuse("filter", f"{rule[0].strip()!r}: see [filter] event-filters for values")
            continue
        sign = "" if rule["kind"].lower() == "include" else "!"
        rules.append(f"{sign}{_pattern(rule['schema'])}.{_pattern(rule['table'])}")
    own = given.get("schema_database", "maxwell")
    return [*rules, f"!{_name(own)}.*"]


def _pattern(text: str) -> str:
    """A name, ``*``, or an expression that any part of a name may match."""
    if text.startswith("/"):
        return text
    return "*" if text == "*" else _name(text.strip("`"))


def _name(text: str) -> str:
    return text if re.fullmatch(r"[\w$]+", text) else f"`{text}`"


def _dispatcher(given: Mapping[str, str], topic: str, found: Findings) -> dict[str, Any]:
    rule: dict[str, Any] = {"matcher": ["*.*"]}
    if "%{" in topic:
        named = topic.replace("%{database}", "{schema}").replace("%{table}", "{table}")
        if "%{" in named:
            found.refuse("kafka_topic", f"{topic!r} has more than database and table")
        rule["topic"] = named
    by = given.get("producer_partition_by", "database").lower()
    if by not in _PARTITIONS:
        found.refuse("producer_partition_by", f"{by} is none of {', '.join(_PARTITIONS)}")
    rule["partition"] = _PARTITIONS.get(by, "table")
    if by == "database":
        found.left["producer_partition_by"] = (
            "rows of a table are in one partition; tables of a database may be in several"
        )
    if by == "column":
        columns = given.get("producer_partition_columns", "")
        rule["columns"] = [name.strip() for name in columns.split(",") if name.strip()]
        if not rule["columns"]:
            found.refuse("producer_partition_columns", "there are none")
    return rule


def _uri(given: Mapping[str, str], found: Findings) -> str:
    """The server whose binlog Maxwell reads."""
    of = "replication_" if given.get("replication_host") else ""
    mode = given.get(f"{of}ssl", given.get("ssl", "disabled")).lower()
    if mode not in (*_SSL, "preferred"):
        found.refuse(f"{of}ssl", f"{mode} is none of preferred, {', '.join(_SSL)}")
    host = given.get(f"{of}host") or "localhost"
    port = given.get(f"{of}port") or given.get("port") or 3306
    user = given.get(f"{of}user") or given.get("user") or "maxwell"
    query = f"/?ssl-mode={mode}" if mode in _SSL and mode != "disabled" else ""
    return server_uri(host, port, user) + query


def _initial(given: Mapping[str, str]) -> str:
    """Of ``init_position``, FILE:POSITION[:HEARTBEAT], what is a place in the binlog."""
    return ":".join(given.get("init_position", "").split(":")[:2])
