"""A connector of Debezium's for MySQL or MariaDB as a changefeed: what its properties become here.

Properties and offsets are those of Debezium 3 (https://debezium.io/documentation/reference/3.5/
connectors/mysql.html). What would make other messages is refused, all of it at once; what is about
how the connector works is listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
from cdc.coord.snapshot_config import SnapshotMode

_CONNECTORS = ("MySqlConnector", "MariaDbConnector")
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_SNAPSHOTS = {
    "initial": SnapshotMode.INITIAL,
    "when_needed": SnapshotMode.INITIAL,
    "initial_only": SnapshotMode.ONLY,
    "no_data": None,
    "schema_only": None,
    "never": None,
}
# Values with which messages are those that we make; others make other ones.
_AS_WE_DO = {
    "decimal.handling.mode": "precise",
    "time.precision.mode": "adaptive_time_microseconds",
    "bigint.unsigned.handling.mode": "long",
    "binary.handling.mode": "bytes",
    "provide.transaction.metadata": "false",
    "field.name.adjustment.mode": "none",
    "schema.name.adjustment.mode": "none",
    "topic.naming.strategy": "io.debezium.schema.SchemaTopicNamingStrategy",
    "enable.time.adjuster": "true",
    "tombstones.on.delete": "true",
}
_TAKEN = frozenset(
    "name connector.class database.hostname database.port database.user topic.prefix"
    " database.server.name topic.delimiter database.include.list database.exclude.list"
    " table.include.list table.exclude.list column.include.list column.exclude.list snapshot.mode"
    " skipped.operations key.converter value.converter key.converter.schemas.enable"
    " value.converter.schemas.enable database.ssl.mode transforms".split()
)
# What is about how the connector works, by the beginning of its name.
_ELSEWHERE = {
    "database.password": "give it with --password-file, or as TIDEGATE_PASSWORD",
    "database.server.id": "see [source] of server.toml",
    "database.ssl.": "give PEM files: --ca, --cert, --key",
    "database.": "it is about the connector's own connections",
    "schema.history.": "the schema's history is in the upstream's change log",
    "include.schema.changes": "schema changes are in the topic of the sink's URI",
    "include.schema.comments": "messages have no comments of the schema",
    "include.query": "messages have no statements' texts",
    "heartbeat.": "positions are kept without records: nothing need be written for them",
    "signal.": "rows are read anew by cdc cli snapshot start",
    "incremental.snapshot.": "rows are read by cdc cli snapshot start, see [snapshot]",
    "read.only": "nothing is written to the upstream",
    "snapshot.": "see [snapshot] of the changefeed's file",
    "notification.": "see cdc cli changefeed query, metrics and alerts",
    "min.row.count.": "see [snapshot] of the changefeed's file",
    "topic.creation.": "add partition-num and replication-factor to the sink's URI",
    "topic.cache.": "it is about how the connector works",
    "producer.": "add compression and the like to the sink's URI",
    "errors.": "a changefeed tries again, then stops at what it cannot deliver",
    "retriable.": "a changefeed tries again, then stops at what it cannot deliver",
    "event.processing.failure.": "what cannot be read stops the upstream",
    "inconsistent.schema.": "what cannot be read stops its table",
    "event.deserialization.": "what cannot be read stops the upstream",
    "exactly.once.": "rows and positions are one transaction of Kafka",
    "transaction.boundary": "rows and positions are one transaction of Kafka",
    "use.nongraceful.": "it is about how the connector works",
    "connect.": "it is about the connector's own connections",
    "connection.": "it is about the connector's own connections",
    "driver.": "it is about the connector's own connections",
    "gtid.source.": "the log is that of one server",
    "max.": "nothing is queued in memory: rows are read from the log",
    "poll.": "nothing is queued in memory: rows are read from the log",
    "binlog.buffer.": "nothing is queued in memory: rows are read from the log",
    "tasks.max": "one upstream is pulled once",
    "custom.metric.": "metrics have the changefeed's name",
    "openlineage.": "there is none",
    "config.": "it is about Connect",
    "offset.": "it is about Connect",
    "offsets.": "it is about Connect",
    "header.converter": "records have no headers",
    "internal.": "it is about how the connector works",
    "executor.": "it is about how the connector works",
    "column.propagate.": "schemas have no parameters of their columns",
    "datatype.propagate.": "schemas have no parameters of their columns",
    "skip.messages.without.change": "every change is delivered",
}
_KEYS = KnownKeys(
    "property", _TAKEN, _AS_WE_DO, _ELSEWHERE, read_below=("transforms.", "predicates")
)
_SKIPPED = {"c": "insert", "u": "update", "d": "delete"}
# MySQL's words, and those of the connector for MariaDB.
_SSL = {mode: mode for mode in ("disabled", "required", "verify_ca", "verify_identity")} | {
    "disable": "disabled", "trust": "required", "verify-ca": "verify_ca",
    "verify-full": "verify_identity",
}  # fmt: skip


class ConnectorNotSupported(InvalidError):
    """A connector whose messages no changefeed makes; the message has all that is in the way."""

    code = "TG:ErrConnectorNotSupported"


def imported(
    properties: Mapping[str, Any], offset: Mapping[str, Any] | None = None, brokers: str = ""
) -> Imported:
    """The changefeed of a connector; ``offset`` is where it stopped, ``brokers`` those of Kafka.

    Raises ConnectorNotSupported.
    """
    given = {key: str(value).strip() for key, value in properties.items()}
    found = Findings()
    _check(given, found)
    prefix = given.get("topic.prefix") or given.get("database.server.name") or ""
    if not prefix:
        found.refuse("topic.prefix", "there is none")
    config: dict[str, Any] = {}
    start = _start(offset, found) if offset is not None else ""
    snapshot = _snapshot(given, found)
    if snapshot is not None and offset is None:
        config["snapshot"] = {"mode": snapshot.value}
    config["filter"] = {"rules": _rules(given, found)}
    if skipped := _skipped(given, found):
        config["filter"]["event-filters"] = [{"matcher": ["*.*"], "ignore-event": skipped}]
    delimiter = given.get("topic.delimiter") or "."
    topic = delimiter.join((prefix, "{schema}", "{table}"))
    rule = {"matcher": ["*.*"], "topic": topic, "partition": "index-value"}
    config["sink"] = {"dispatchers": [rule]}
    if columns := _columns(given, found):
        config["sink"]["column-selectors"] = columns
    sink_uri = _sink_uri(given, prefix, brokers, found)
    name = plain_name(given.get("name") or prefix, "debezium")
    made = ImportedFeed(
        name, name, (ImportedNode("", _uri(given, found), start),), config, sink_uri
    )
    if found.refused:
        raise ConnectorNotSupported(
            "; ".join(found.refused),
            object=given.get("name") or prefix,
            hint="if consumers can do without, import a copy of the file without these",
        )
    return Imported((made,), tuple(found.left.items()))


def _check(given: Mapping[str, str], found: Findings) -> None:
    """What must be as we do it, and what is known to be of no matter."""
    connector = given.get("connector.class", "").rpartition(".")[2]
    if connector not in _CONNECTORS:
        found.refuse("connector.class", f"is none of {', '.join(_CONNECTORS)}")
    if given.get("transforms"):
        found.refuse("transforms", "change messages, which a changefeed cannot")
    _KEYS.check(given, found)


def _snapshot(given: Mapping[str, str], found: Findings) -> SnapshotMode | None:
    mode = given.get("snapshot.mode", "initial")
    if mode not in _SNAPSHOTS:
        found.refuse("snapshot.mode", f"{mode} is none of {', '.join(_SNAPSHOTS)}")
    if "snapshot.include.collection.list" in given:
        found.left["snapshot.include.collection.list"] = "name them in snapshot.tables of the file"
    if "snapshot.select.statement.overrides" in given:
        found.refuse("snapshot.select.statement.overrides", "see snapshot.where of a file of ours")
    return _SNAPSHOTS.get(mode)


def _start(offset: Mapping[str, Any], found: Findings) -> str:
    """Where the connector stopped, as ``upstream create --start`` takes it."""
    if str(offset.get("snapshot", "")).lower() not in ("", "false", "none"):
        found.refuse(
            "offset.snapshot", "the connector has not copied all rows: begin without offsets"
        )
    if int(offset.get("event") or 0) or int(offset.get("row") or 0):
        found.left["offset.event"] = (
            "it says how much of a transaction was sent, and not whether that was all: that one"
            " comes once more, whole. See docs/debezium.md for a switch while nobody writes"
        )
    gtids = str(offset.get("gtids") or offset.get("gtid") or "")
    if gtids:
        return gtids.replace("\n", "")
    if offset.get("file"):
        return f"{offset['file']}:{offset.get('pos', 4)}"
    found.refuse("offset", "has neither gtids nor file and pos")
    return ""


def _rules(given: Mapping[str, str], found: Findings) -> list[str]:
    """Lists of expressions as rules, of which the last that matches decides."""
    databases = _list(given, "database.include.list")
    tables = _list(given, "table.include.list")
    schemas = [expressions.pattern(text, "database.include.list", found) for text in databases]
    rules = [f"{schema}.*" for schema in schemas]
    if tables:
        rules = [expressions.table(text, "table.include.list", found) for text in tables]
        known = {s.lower() for s in schemas}
        if schemas and any(r.rpartition(".")[0].lower() not in known for r in rules):
            found.refuse("table.include.list", "has tables that database.include.list may not have")
    rules = rules or ["*.*"]
    for text in _list(given, "database.exclude.list"):
        rules.append(f"!{expressions.pattern(text, 'database.exclude.list', found)}.*")
    for text in _list(given, "table.exclude.list"):
        rules.append(f"!{expressions.table(text, 'table.exclude.list', found)}")
    return rules


def _list(given: Mapping[str, str], key: str) -> Sequence[str]:
    return [text.strip() for text in given.get(key, "").split(",") if text.strip()]


def _columns(given: Mapping[str, str], found: Findings) -> list[dict[str, Any]]:
    """Columns by table; those of a name, or of what begins like it."""
    selectors: dict[str, list[str]] = {}
    for key, sign in (("column.include.list", ""), ("column.exclude.list", "!")):
        for text in _list(given, key):
            schema, table, column = expressions.names(text, key, 3, found)
            if column.startswith("/"):
                found.refuse(key, f"{text!r}: columns are chosen by names and wildcards only")
            first = ["*"] if sign else []
            selectors.setdefault(f"{schema}.{table}", first).append(sign + column)
    return [{"matcher": [name], "columns": columns} for name, columns in selectors.items()]


def _skipped(given: Mapping[str, str], found: Findings) -> list[str]:
    kinds = [k for k in _list(given, "skipped.operations") if k not in ("none", "t")]
    for kind in kinds:
        if kind not in _SKIPPED:
            found.refuse("skipped.operations", f"{kind!r} is none of c, u, d, t, none")
    return [_SKIPPED[kind] for kind in kinds if kind in _SKIPPED]


def _uri(given: Mapping[str, str], found: Findings) -> str:
    if not given.get("database.hostname"):
        found.refuse("database.hostname", "there is none")
    mode = given.get("database.ssl.mode", "preferred").lower()
    query = f"/?ssl-mode={_SSL[mode]}" if mode in _SSL else ""
    if mode not in (*_SSL, "preferred"):
        found.refuse("database.ssl.mode", f"{mode} is none of preferred, {', '.join(_SSL)}")
    host, port = given.get("database.hostname", ""), given.get("database.port") or 3306
    return server_uri(host, port, given.get("database.user", "")) + query


def _sink_uri(given: Mapping[str, str], prefix: str, brokers: str, found: Findings) -> str:
    for key in ("key.converter", "value.converter"):
        if given.get(key, _JSON) != _JSON:
            found.refuse(key, f"messages are those of {_JSON}")
    enabled = {
        key: given.get(f"{key}.converter.schemas.enable", "true").lower()
        for key in ("key", "value")
    }
    if enabled["key"] != enabled["value"]:
        found.refuse("key.converter.schemas.enable", "must be that of values")
    if not any(f"{key}.converter.schemas.enable" in given for key in enabled):
        found.left["value.converter.schemas.enable"] = (
            "messages have schemas, as Connect's default: if the worker says otherwise, add"
            " debezium-disable-schema=true to the sink's URI"
        )
    known = brokers or given.get("schema.history.internal.kafka.bootstrap.servers", "")
    if not known:
        found.left["bootstrap.servers"] = "put Kafka's brokers into the sink's URI, or --brokers"
    without = "&debezium-disable-schema=true" if enabled["value"] == "false" else ""
    return f"kafka://{known or 'BROKERS'}/{prefix}?protocol=debezium{without}"
