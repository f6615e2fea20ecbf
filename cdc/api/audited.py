"""What a change is about, and what of it may be written down: as it was, and as it is."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from cdc.base.secrets import MASK, is_secret_key, mask_text, mask_uri
from cdc.coord import election
from cdc.coord.messages import ApiToken, CopyOrder, DdlDecision, FeedInfo
from cdc.coord.stored import StoredValueUnreadable, read
from cdc.server.capture import Capture
from cdc.server.logging_setup import redaction
from cdc.server.upstream_errors import UpstreamNotFound
from owner import placing

_LONGEST, _MOST, _DEEPEST = 1_000, 100, 12
_URIS = ("uri", "sink_uri")
# Progress is no change that anybody asked for.
_FEED = {"id", "upstream", "sink_uri", "start_ts", "target_ts", "state", "config", "change"}
_UPSTREAM = {"name", "uri", "kind", "server_uuid", "ca", "cert", "key"}
_NODE = {"uri", "server_uuid", "ca", "cert", "key"}
_COPY = {"id", "tables", "where", "cancelled", "paused"}
_TOKEN = {"name", "role", "expires_ms"}


def shown(value: Any, name: str = "", depth: int = 0) -> Any:
    """A value without secrets, and of a size that can be kept."""
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, dict):
        items = [(shown(str(k)), v) for k, v in list(value.items())[:_MOST]]
        return {
            k: MASK if v and is_secret_key(k) and not isinstance(v, bool | dict) else
            shown(v, k, depth + 1)
            for k, v in items
        }  # fmt: skip
    if isinstance(value, list):
        return [shown(v, name, depth + 1) for v in value[:_MOST]]
    if isinstance(value, str):
        # A lone surrogate, which JSON can have and the store's text cannot.
        plain = value.encode("utf-8", "replace").decode()
        text = mask_uri(plain) if name in _URIS else mask_text(plain)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return value


def difference(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Of two states what differs, by path; None is a state in which there is nothing."""
    was, now = _leaves(before or {}), _leaves(after or {})
    paths = [p for p in {**was, **now} if was.get(p) != now.get(p)][:_MOST]
    return (
        None if before is None else {p: _masked(p, was[p]) for p in paths if p in was},
        None if after is None else {p: _masked(p, now[p]) for p in paths if p in now},
    )


def _masked(path: str, value: Any) -> Any:
    if any(is_secret_key(part) for part in path.split(".")) and value:
        return MASK
    found = shown(value, path.rpartition(".")[2])
    text = json.dumps(found, ensure_ascii=False, default=str)
    return found if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _leaves(value: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, part in value.items():
        path = f"{at}.{name}" if at else str(name)
        found |= _leaves(part, path) if isinstance(part, dict) and part else {path: part}
    return found


class Audited:
    """What the routes of a capture change: names and states, by route and its parameters."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    @staticmethod
    def name(template: str, params: Mapping[str, str]) -> str:
        """``changefeed a``, ``changefeed a, ts 7``, ``upstream main``, ``token ann`` …"""
        kind = template.split("/")[3]
        found = params.get("feed") or params.get("name") or params.get("capture_id")
        found = found or params.get("id", "")
        word = kind if kind in ("owner", "log") else kind.removesuffix("s")
        part = f", ts {params['ts']}" if "ts" in params else ""
        # What was created has its number from the answer.
        number = params.get("number") or params.get("id", "")
        for below in ("snapshot", "verification"):
            if f"/{below}s" in template and number:
                part = f", {below} {number}"
        return mask_text(f"{word} {found}".strip() + part)[:_LONGEST]

    def state(self, template: str, params: Mapping[str, str]) -> dict[str, Any] | None:
        """What can be changed of it, as it is now; None if it does not exist.

        Raises StoreFailed.
        """
        try:
            return self._state(template, params)
        except StoredValueUnreadable as e:
            return {"error": e.code}

    def _state(self, template: str, params: Mapping[str, str]) -> dict[str, Any] | None:
        store, keys = self._capture.store, self._capture.keys
        kind = template.split("/")[3]
        if kind == "changefeeds":
            return self._below(template, params)
        name = params.get("name", "")
        if template.endswith("/move"):
            placed, _ = placing.of(store, keys, name)
            return {"capture": placed.capture} if placed is not None else None
        if kind == "upstreams":
            return self._upstream(name)
        if kind == "tokens":
            entry = store.get(keys.token(name)) if name else None
            return read(entry, ApiToken).model_dump(include=_TOKEN) if entry else None
        if kind == "captures":
            return {"is_drained": election.drained(store, keys, params["capture_id"])}
        if kind == "owner":
            entry = store.get(keys.owner)
            return {"owner": entry.value.decode() if entry else ""}
        if template.endswith("/redact"):
            return {"redact_info_log": str(redaction.mode)}
        return {"log_level": logging.getLevelName(logging.getLogger().level).lower()}

    def _below(self, template: str, params: Mapping[str, str]) -> dict[str, Any] | None:
        feed = params.get("feed") or params.get("id", "")
        if "ts" in params:
            return self._decision(feed, params["ts"])
        if "/snapshots" in template:
            return self._copy(feed, params.get("number") or params.get("id", ""))
        return self._feed(feed)

    def _copy(self, feed: str, number: str) -> dict[str, Any] | None:
        if not number.isascii() or not number.isdecimal():
            return None
        entry = self._capture.store.get(self._capture.keys.copy_order(feed, number))
        return read(entry, CopyOrder).model_dump(include=_COPY, mode="json") if entry else None

    def _feed(self, feed: str) -> dict[str, Any] | None:
        entry = self._capture.store.get(self._capture.keys.feed_info(feed)) if feed else None
        return read(entry, FeedInfo).model_dump(include=_FEED, mode="json") if entry else None

    def _decision(self, feed: str, ts: str) -> dict[str, Any] | None:
        if not ts.isascii() or not ts.isdecimal():
            return None
        entry = self._capture.store.get(self._capture.keys.ddl_decision(feed, int(ts)))
        return read(entry, DdlDecision).model_dump(mode="json") if entry else None

    def _upstream(self, name: str) -> dict[str, Any] | None:
        if not name:
            return None
        try:
            info = self._capture.upstreams.info(name)
        except UpstreamNotFound:
            return None
        nodes = {node.node_name: node.model_dump(include=_NODE, mode="json") for node in info.nodes}
        found = info.model_dump(include=_UPSTREAM, mode="json")
        return found | ({"nodes": nodes} if nodes else {})
