"""The sources of a DM task that merges shards, as one upstream of several nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cdc.coord.names import NODE_NAME

_LONGEST = 30


def node_names(sources: Sequence[str]) -> list[str]:
    """Names of nodes, like the sources' if these can be names of nodes that differ."""
    names = [re.sub("[^a-z0-9_-]+", "-", source.lower()) for source in sources]
    fit = all(len(name) <= _LONGEST and re.fullmatch(NODE_NAME, name) for name in names)
    if fit and len(set(names)) == len(names):
        return names
    return [f"n{number}" for number, _ in enumerate(names, 1)]


def joined(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One configuration of those of the nodes, by their names.

    Where they differ each node's rules are restricted to it, so that it passes and becomes what it
    would alone.
    """
    first, *others = configs.values()
    if all(other == first for other in others):
        return dict(first)
    rules: list[str] = []
    events: list[dict[str, Any]] = []
    dispatchers: list[dict[str, Any]] = []
    for node, config in configs.items():
        chosen = config["filter"]
        rules += _of(node, chosen["rules"])
        events += (_matched_of(node, rule) for rule in chosen.get("event-filters", ()))
        sink = config.get("sink", {})
        dispatchers += (_matched_of(node, rule) for rule in sink.get("dispatchers", ()))
    made = {key: value for key, value in first.items() if key != "sink"}
    made["filter"] = {"rules": rules} | ({"event-filters": events} if events else {})
    if dispatchers:
        made["sink"] = {"dispatchers": dispatchers}
    return made


def _matched_of(node: str, rule: Mapping[str, Any]) -> dict[str, Any]:
    return {**rule, "matcher": _of(node, rule["matcher"])}


def _of(node: str, patterns: Sequence[str]) -> list[str]:
    return [
        f"!{node}:{text[1:]}" if text.startswith("!") else f"{node}:{text}" for text in patterns
    ]
