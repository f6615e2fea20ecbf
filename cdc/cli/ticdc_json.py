"""``--json`` where TiCDC's command line has a form of its own: its names, beside those of the API.

So scripts that read either find what they look for; the API's own names are those of TiCDC's API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc.base.ts import to_text


def summarized(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item of ``changefeed list``."""
    summary = _summary(item, item["checkpoint_tso"], item["checkpoint_time"], item["error"])
    return {**item, "summary": summary}


def simple(status: Mapping[str, Any]) -> dict[str, Any]:
    """``changefeed query --simple``."""
    ts = status["checkpoint_ts"]
    error = status["last_error"] or status["last_warning"]
    return {**status, **_summary(status, ts, to_text(ts) if ts else "", error)}


def capture(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item of ``capture list``."""
    return {**item, "is-owner": item["is_owner"], "cluster-id": item["cluster_id"]}


def _summary(of: Mapping[str, Any], ts: int, time: str, error: Any) -> dict[str, Any]:
    return {"state": of["state"], "tso": ts, "checkpoint": time, "error": error}
