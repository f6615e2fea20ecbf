"""DM's task file as changefeeds: what each of its keys becomes here.

Keys and their meaning are those of DM 8.5 (its task configuration file, block and allow lists,
binlog event filter, expression filter, table routing). What cannot be kept is refused, all of it at
once; what has no meaning here is listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdc.base.errors import InvalidError
from cdc.cli.dm_shards import joined, node_names
from cdc.cli.imported import (
    Findings,
    Imported,
    ImportedFeed,
    ImportedNode,
    listed,
    plain_name,
    server_uri,
)
from cdc.coord.snapshot_config import SnapshotMode
from filter.event_types import ALL as EVENTS

_WILD = re.compile(r"[*?\[\]]")
_PLAIN = re.compile(r"[\w$\-]+\Z")
_SNAPSHOTS = {"all": SnapshotMode.INITIAL, "full": SnapshotMode.ONLY}
_EXPRESSIONS = (
    "insert-value-expr",
    "update-old-value-expr",
    "update-new-value-expr",
    "delete-value-expr",
)
# What DM does for each task and we for none, or by other means, with the reason.
_ELSEWHERE = {
    "meta-schema": "progress is kept in the schema tidegate of the target, with the rows",
    "ignore-checking-items": "checks at creation cannot be left out",
    "timezone": "times are delivered as the upstream has them, whatever the sessions' time zones",
    "clean-dump-file": "there is no dump",
    "enable-heartbeat": "lag is measured by the upstream's own clock",
    "heartbeat-update-interval": "lag is measured by the upstream's own clock",
    "heartbeat-report-interval": "lag is measured by the upstream's own clock",
    "collation_compatible": "collations are written out where the target's default is another",
    "mydumpers": "there is no dump",
    "loaders": "there is no dump",
    "validators": "cdc cli changefeed verify compares, when it is asked to",
    "experimental": "it is about DM's own checkpoints",
    "strict-optimistic-shard-mode": "what a schema change of shards waits for is one thing here",
    "remove-meta": "it is about DM's own checkpoints",
}
_SYNCERS = {
    "batch": "a target transaction is as large as a window",
    "queue-size": "nothing is queued in memory",
    "checkpoint-flush-interval": "positions are written with the rows",
    "compact": "every change is delivered",
    "multiple-rows": "rows of one kind share a statement by themselves",
    "safe-mode-duration": "nothing is applied twice, so none is needed after a restart",
    "enable-ansi-quotes": "statements are read under the sql_mode of their session",
    "max-retry": "see changefeed-error-stuck-duration",
    "auto-fix-gtid": "GTIDs are asked for",
    "enable-gtid": "it is a setting of the source",
    "meta-file": "it is about DM's own checkpoints",
    "server-id": "see [source] of server.toml",
    "disable-detect": "it is about DM's own checkpoints",
}


class DmTaskNotSupported(InvalidError):
    """A task of DM's that no changefeed can carry out; the message has all that is in the way."""

    code = "TG:ErrDMTaskNotSupported"


def imported(
    task: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]] | None = None
) -> Imported:
    """The changefeeds of a task; ``sources`` are DM's source files by their ``source-id``.

    Raises DmTaskNotSupported.
    """
    found, known = Findings(), sources or {}
    _whole(task, found)
    instances = listed(task.get("mysql-instances"))
    if not instances:
        found.refuse("mysql-instances", "there is none")
    made = tuple(_source(task, instance, known, found) for instance in instances)
    if _shard_mode(task) and len(made) > 1:
        made = (_merged(task, made, found),)
    if found.refused:
        raise DmTaskNotSupported(
            "; ".join(found.refused),
            object=str(task.get("name", "")),
            hint="take these out of a copy of the file, and import that",
        )
    return Imported(made, tuple(found.left.items()))


def _whole(task: Mapping[str, Any], found: Findings) -> None:
    """What concerns all sources."""
    mode = task.get("task-mode", "incremental")
    if mode in _SNAPSHOTS:
        found.left["task-mode"] = "rows are copied, into tables that are at the target: make these"
    elif mode != "incremental":
        found.refuse("task-mode", f"{mode} is none of all, full, incremental")
    taken = {
        "name", "task-mode", "shard-mode", "is-sharding", "case-sensitive", "online-ddl",
        "online-ddl-scheme", "shadow-table-rules", "trash-table-rules", "target-database",
        "mysql-instances", "block-allow-list", "black-white-list", "routes", "filters",
        "expression-filter", "syncers",
    }  # fmt: skip
    for key in task:
        if key in _ELSEWHERE:
            found.left[key] = _ELSEWHERE[key]
        elif key not in taken:
            found.refuse(key, "is no key of a task that is known here")


def _source(
    task: Mapping[str, Any],
    instance: Mapping[str, Any],
    known: Mapping[str, Mapping[str, Any]],
    found: Findings,
) -> ImportedFeed:
    source = str(instance.get("source-id", ""))
    name = _name(task)
    several = len(listed(task.get("mysql-instances"))) > 1
    config: dict[str, Any] = {}
    if task.get("case-sensitive"):
        config["case-sensitive"] = True
    config |= _online(task)
    if mode := _shard_mode(task):
        config["shard-mode"] = mode
    snapshot = _SNAPSHOTS.get(task.get("task-mode", ""))
    if snapshot:
        # DM makes the tables that it copies.
        config["snapshot"] = {"mode": snapshot.value, "create-tables": True}
    config["filter"] = {"rules": _rules(task, instance, found)}
    events = [*_events(task, instance, found), *_expressions(task, instance, found)]
    own = known.get(source, {})
    if own.get("filters"):
        events += _event_rules(own["filters"], own["filters"], f"{source}: filters", found)
    if events:
        config["filter"]["event-filters"] = events
    routes = _routes(task, instance, found)
    if routes:
        config["sink"] = {"dispatchers": routes}
    uri = _uri(own.get("from", {})) if own else ""
    # DM, too, takes no position where it copies rows.
    node = ImportedNode(source, uri, "" if snapshot else _start(instance))
    return ImportedFeed(
        feed=f"{name}-{source}".replace("_", "-") if several else name,
        upstream=plain_name(source, "main"),
        nodes=(node,),
        config=config,
        sink_uri=_sink_uri(task, instance, found),
    )


def _merged(
    task: Mapping[str, Any], feeds: Sequence[ImportedFeed], found: Findings
) -> ImportedFeed:
    """The changefeed of several sources whose tables become one."""
    sources = [node for feed in feeds for node in feed.nodes]
    names = node_names([source.name for source in sources])
    if any(feed.sink_uri != feeds[0].sink_uri for feed in feeds):
        found.left["mysql-instances.syncer-config-name"] = "that of the first source is for all"
    return ImportedFeed(
        feed=_name(task),
        upstream=_name(task),
        nodes=tuple(
            replace(source, name=name) for source, name in zip(sources, names, strict=True)
        ),
        config=joined({name: feed.config for name, feed in zip(names, feeds, strict=True)}),
        sink_uri=feeds[0].sink_uri,
    )


def _name(task: Mapping[str, Any]) -> str:
    return plain_name(str(task.get("name", "task")), "task")


def _shard_mode(task: Mapping[str, Any]) -> str:
    """How shards are merged, with the word of DM's that came before; "" if they are not."""
    return str(task.get("shard-mode") or ("pessimistic" if task.get("is-sharding") else ""))


def _online(task: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if not task.get("online-ddl", True) and not task.get("online-ddl-scheme"):
        config["online-ddl"] = False
    for key in ("shadow-table-rules", "trash-table-rules"):
        if task.get(key):
            config[key] = [str(text) for text in task[key]]
    return config


def _named(
    task: Mapping[str, Any], instance: Mapping[str, Any], section: str, key: str, found: Findings
) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The rules of a section that an instance names, in its order."""
    rules = _mapping(task.get(section))
    for name in listed(instance.get(key)):
        if name not in rules:
            found.refuse(f"mysql-instances.{key}", f"{section} has no {name!r}")
        else:
            yield f"{section}.{name}", _mapping(rules[name])


def _rules(task: Mapping[str, Any], instance: Mapping[str, Any], found: Findings) -> list[str]:
    """The block and allow list as rules of which the last that matches decides."""
    lists = _mapping(task.get("block-allow-list") or task.get("black-white-list"))
    name = instance.get("block-allow-list") or instance.get("black-white-list")
    if not name:
        return ["*.*"]
    if name not in lists:
        found.refuse("mysql-instances.block-allow-list", f"there is no {name!r}")
        return ["*.*"]
    chosen, place = _mapping(lists[name]), f"block-allow-list.{name}"
    schemas = [str(s) for s in listed(chosen.get("do-dbs"))]
    rules = [f"{_pattern(s)}.*" for s in schemas]
    tables = [_table(t) for t in listed(chosen.get("do-tables"))]
    if tables:
        rules = [
            f"{_pattern(s)}.{_pattern(t)}" for s, t in tables if _inside(s, schemas, place, found)
        ]
    if not rules:
        rules = ["*.*"] if not schemas and not tables else []
    if not schemas:
        rules += [f"!{_pattern(str(s))}.*" for s in listed(chosen.get("ignore-dbs"))]
    if not tables:
        ignored = (_table(t) for t in listed(chosen.get("ignore-tables")))
        rules += [f"!{_pattern(s)}.{_pattern(t)}" for s, t in ignored]
    if not any(not rule.startswith("!") for rule in rules):
        found.refuse(place, "no table passes it")
    return rules


def _inside(schema: str, schemas: Sequence[str], place: str, found: Findings) -> bool:
    """Whether do-dbs let a schema of do-tables pass."""
    if not schemas or schema in schemas or "*" in schemas:
        return True
    if any(_WILD.search(s) or s.startswith("~") for s in (schema, *schemas)):
        found.refuse(place, f"whether do-dbs have {schema!r} of do-tables is not sure")
    return False


def _table(rule: Any) -> tuple[str, str]:
    given = _mapping(rule)
    return str(given.get("db-name", "*")), str(given.get("tbl-name", "*"))


def _pattern(text: str) -> str:
    """A pattern of DM's as one of ours: wildcards are the same, ``~`` begins an expression."""
    if text.startswith("~"):
        return "/" + text[1:].replace("/", r"\/") + "/"
    if _WILD.search(text) or _PLAIN.match(text):
        return text
    return "`" + text.replace("`", "``") + "`"


def _events(
    task: Mapping[str, Any], instance: Mapping[str, Any], found: Findings
) -> list[dict[str, Any]]:
    rules = dict(_named(task, instance, "filters", "filter-rules", found))
    return _event_rules(rules, rules, "", found)


def _event_rules(
    names: Iterable[str], rules: Mapping[str, Any], place: str, found: Findings
) -> list[dict[str, Any]]:
    made = []
    for name in names:
        rule, where = _mapping(rules[name]), f"{place}.{name}".strip(".")
        action = str(rule.get("action", "Ignore")).lower()
        if action != "ignore":
            found.refuse(f"{where}.action", f"{action!r} has no counterpart, only Ignore has")
            continue
        schema, table = str(rule.get("schema-pattern", "*")), str(rule.get("table-pattern", "*"))
        events = []
        for event in (str(e).lower() for e in listed(rule.get("events"))):
            if event == "all":
                events += ["all dml", "all ddl"]
            elif event in EVENTS:
                events.append(event)
            elif not event.startswith("none"):
                found.refuse(f"{where}.events", f"{event!r} has no counterpart")
        one: dict[str, Any] = {"matcher": [f"{_pattern(schema)}.{_pattern(table)}"]}
        if events:
            one["ignore-event"] = list(dict.fromkeys(events))
        if rule.get("sql-pattern"):
            one["ignore-sql"] = [str(text) for text in listed(rule["sql-pattern"])]
        if len(one) > 1:
            made.append(one)
    return made


def _expressions(
    task: Mapping[str, Any], instance: Mapping[str, Any], found: Findings
) -> list[dict[str, Any]]:
    made = []
    for where, rule in _named(task, instance, "expression-filter", "expression-filters", found):
        if rule.get("update-old-value-expr") and rule.get("update-new-value-expr"):
            found.refuse(where, "an UPDATE that both expressions must match cannot be said")
        table = f"{_literal(rule.get('schema'))}.{_literal(rule.get('table'))}"
        given = {f"ignore-{key}": str(rule[key]) for key in _EXPRESSIONS if rule.get(key)}
        made.append({"matcher": [table], **given})
    return made


def _literal(name: Any) -> str:
    text = str(name or "")
    return text if _PLAIN.match(text) else "`" + text.replace("`", "``") + "`"


def _extracts(
    task: Mapping[str, Any], rule: Mapping[str, Any], where: str, found: Findings
) -> dict[str, Any]:
    """Columns of the target that are taken from names; of the source only where it is a node."""
    made: dict[str, Any] = {}
    for what in ("table", "schema", "source"):
        key = f"extract-{what}"
        if not (given := rule.get(key)):
            continue
        if what == "source" and not (_shard_mode(task) and len(task["mysql-instances"]) > 1):
            found.refuse(f"{where}.{key}", "a task without shard-mode has no nodes to be told by")
            continue
        if what == "source":
            found.left[f"{where}.{key}"] = "the name of a node is looked at: see the upstream's"
        names = (f"{what}-regexp", "target-column")
        made[key] = {name: str(given.get(name, "")) for name in names}
    return made


def _routes(
    task: Mapping[str, Any], instance: Mapping[str, Any], found: Findings
) -> list[dict[str, Any]]:
    """The rules of tables before those of whole schemas, since the first that matches decides."""
    tables: list[dict[str, Any]] = []
    schemas: list[dict[str, Any]] = []
    for where, rule in _named(task, instance, "routes", "route-rules", found):
        schema, table = str(rule.get("schema-pattern", "*")), str(rule.get("table-pattern", "*"))
        made: dict[str, Any] = {"matcher": [f"{_pattern(schema)}.{_pattern(table)}"]}
        if rule.get("target-schema"):
            made["target-schema"] = str(rule["target-schema"])
        if rule.get("target-table"):
            made["target-table"] = str(rule["target-table"])
        made |= _extracts(task, rule, where, found)
        (tables if rule.get("table-pattern") else schemas).append(made)
    return tables + schemas


def _sink_uri(task: Mapping[str, Any], instance: Mapping[str, Any], found: Findings) -> str:
    target = _mapping(task.get("target-database"))
    if not target.get("host"):
        found.refuse("target-database", "has no host")
    for key in target:
        if key == "security":
            found.left["target-database.security"] = (
                "add ssl-ca, ssl-cert and ssl-key to the sink's URI"
            )
        elif key not in ("host", "port", "user", "password"):
            found.left[f"target-database.{key}"] = "sessions are set up for exact values"
    options = _syncer_options(task, instance, found)
    query = "?" + "&".join(f"{k}={v}" for k, v in options.items()) if options else ""
    return f"{_uri(target)}/{query}"


def _syncer_options(
    task: Mapping[str, Any], instance: Mapping[str, Any], found: Findings
) -> dict[str, str]:
    given = dict(_mapping(instance.get("syncer")))
    for where, rule in _named(task, instance, "syncers", "syncer-config-name", found):
        given |= dict(rule)
        del where
    if instance.get("syncer-thread"):
        given["worker-count"] = instance["syncer-thread"]
    options = {}
    for key, value in given.items():
        if key == "worker-count":
            options[key] = str(value)
        elif key == "safe-mode":
            if value:
                options[key] = "true"
        else:
            found.left[f"syncers.{key}"] = _SYNCERS.get(key, "it is about how DM works")
    return options


def _uri(server: Mapping[str, Any]) -> str:
    """Without the password: DM keeps it encrypted."""
    return server_uri(
        str(server.get("host", "")), server.get("port", 3306), str(server.get("user") or "")
    )


def _start(instance: Mapping[str, Any]) -> str:
    meta = _mapping(instance.get("meta"))
    if meta.get("binlog-gtid"):
        return str(meta["binlog-gtid"])
    if meta.get("binlog-name"):
        return f"{meta['binlog-name']}:{meta.get('binlog-pos', 4)}"
    return ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
