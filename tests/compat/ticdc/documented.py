"""What TiCDC documents: requests, command lines, and the answers that it promises to them.

Out of its pages ticdc-open-api-v2, ticdc-open-api and ticdc-manage-changefeed of version 8.5. Only
what must be another one is: ids, addresses, and ``upstream``, without which nobody can say what is
to be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FEED = "simple-replication-task"
SINK = "blackhole://"
# The default body of the page, with every feature that it has switched off.
REPLICA_CONFIG: dict[str, Any] = {
    "bdr_mode": False,
    "case_sensitive": False,
    "check_gc_safe_point": True,
    "consistent": {"flush_interval": 0, "level": "none", "max_log_size": 64, "storage": ""},
    "enable_sync_point": False,
    "filter": {
        "event_filters": [
            {
                "ignore_delete_value_expr": "",
                "ignore_event": ["drop table"],
                "ignore_insert_value_expr": "",
                "ignore_sql": ["^drop"],
                "ignore_update_new_value_expr": "",
                "ignore_update_old_value_expr": "",
                "matcher": ["test.worker"],
            }
        ],
        "rules": ["*.*"],
    },
    "force_replicate": False,
    "ignore_ineligible_table": True,
    "memory_quota": 1073741824,
    "mounter": {"worker_num": 16},
    "sink": {"dispatchers": [{"matcher": ["test.*"], "partition": "table"}]},
}
_INFO = frozenset(
    "admin_job_type checkpoint_time checkpoint_ts config create_time creator_version error id"
    " resolved_ts sink_uri start_ts state target_ts task_status".split()
)


@dataclass(frozen=True, slots=True)
class Request:
    """One of the API. ``fields``: what its answer has, of a list each item."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    fields: frozenset[str] = field(default=frozenset())
    status: int = 200

    @property
    def name(self) -> str:
        """As the table shows it."""
        keys = ", ".join(self.body or ())
        return f"{self.method} {self.path}" + (f" {{{keys}}}" if keys else "")


@dataclass(frozen=True, slots=True)
class Line:
    """One command line. ``fields`` as of a request, if it prints JSON; ``text`` in its output."""

    words: str
    fields: frozenset[str] = field(default=frozenset())
    text: str = ""

    @property
    def name(self) -> str:
        """As the table shows it."""
        return f"cdc cli {self.words}"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CREATE = {"changefeed_id": FEED, "upstream": "main", "sink_uri": SINK}
REQUESTS = [
    Request(
        "GET", "/api/v2/status", None,
        _names("version git_hash id cluster_id pid is_owner liveness"),
    ),
    Request("GET", "/api/v2/health"),
    Request("POST", "/api/v2/changefeeds", {"changefeed_id": "test5", "sink_uri": SINK}, _INFO),
    Request("POST", "/api/v2/changefeeds", CREATE | {"replica_config": REPLICA_CONFIG}, _INFO),
    Request("POST", "/api/v2/changefeeds", CREATE, _INFO, 400),
    Request(
        "GET", "/api/v2/changefeeds?state=normal", None,
        _names("id namespace state checkpoint_tso checkpoint_time error"),
    ),
    Request("GET", f"/api/v2/changefeeds/{FEED}", None, _INFO),
    Request("GET", "/api/v2/changefeeds/none", None, frozenset(), 400),
    Request(
        "GET", f"/api/v2/changefeeds/{FEED}/status", None,
        _names("state resolved_ts checkpoint_ts last_error last_warning"),
    ),
    Request(
        "GET", f"/api/v2/changefeeds/{FEED}/synced", None,
        _names("synced sink_checkpoint_ts puller_resolved_ts last_synced_ts now_ts info"),
    ),
    Request("GET", f"/api/v2/changefeeds/{FEED}/meta_info", None, _INFO),
    Request("PUT", f"/api/v2/changefeeds/{FEED}", {"target_ts": 1 << 61}, frozenset(), 400),
    Request("POST", f"/api/v2/changefeeds/{FEED}/pause"),
    Request("PUT", f"/api/v2/changefeeds/{FEED}", {"target_ts": 1 << 61}, _INFO),
    Request("POST", f"/api/v2/changefeeds/{FEED}/resume", {"overwrite_checkpoint_ts": 0}),
    # The only capture of an installation has nobody to move a table to.
    Request(
        "POST", f"/api/v2/changefeeds/{FEED}/move_table?tableID=1&targetNodeID=x&mode=0&wait=false",
        None, frozenset(), 409,
    ),
    Request("GET", "/api/v2/captures", None, _names("id is_owner address cluster_id")),
    Request("GET", "/api/v2/processors", None, _names("changefeed_id capture_id")),
    Request("GET", f"/api/v2/processors/{FEED}/{{capture}}", None, _names("table_ids")),
    Request("POST", "/api/v2/log", {"log_level": "debug"}),
    Request("POST", "/api/v2/log", {"log_level": "info"}),
    Request(
        "POST", "/api/v2/log/redact", {"redact_info_log": "on"},
        _names("previous_mode current_mode"),
    ),
    Request("POST", "/api/v2/tso", {}, _names("timestamp logic_time")),
    Request(
        "POST", "/api/v2/verify_table", {"upstream": "main", "replica_config": {}, "start_ts": 0},
        _names("ineligible_tables eligible_tables"),
    ),
    Request(
        "POST", "/api/v2/get_all_tables", {"upstream": "main", "replica_config": {}, "start_ts": 0},
        _names("all_tables"),
    ),
    Request("GET", "/api/v2/unsafe/metadata", None, frozenset({"key", "value"})),
    Request("POST", "/api/v2/unsafe/resolve_lock", {"region_id": 1, "ts": 1}),
    Request("DELETE", "/api/v2/unsafe/service_gc_safepoint"),
    Request("POST", "/api/v2/owner/resign"),
    Request("DELETE", f"/api/v2/changefeeds/{FEED}"),
    Request("DELETE", f"/api/v2/changefeeds/{FEED}"),
    Request("GET", "/api/v1/changefeeds"),
    Request("PUT", "/api/v1/captures/drain", {"capture_id": "x"}, _names("current_table_count")),
]  # fmt: skip
_SUMMARY = _names("id summary.state summary.tso summary.checkpoint summary.error")
LINES = [
    Line(f"changefeed create --sink-uri={SINK} --changefeed-id={FEED} -u main --no-confirm",
         text="Create changefeed successfully!"),
    Line(f"changefeed create --sink-uri={SINK} --changefeed-id=other", text="ID: other"),
    Line("changefeed list --json", _SUMMARY),
    Line("changefeed list --all --json", _SUMMARY),
    Line(f"changefeed query -s --changefeed-id={FEED} --json",
         _names("state tso checkpoint error")),
    Line(f"changefeed query --changefeed-id={FEED} --json",
         _names("id sink_uri create_time start_ts target_ts config state checkpoint_ts")),
    Line(f"changefeed statistics --changefeed-id={FEED} -I 1 -n 1",
         _names("sink_gap replication_gap")),
    Line(f"changefeed pause --changefeed-id {FEED}"),
    Line(f"changefeed update --changefeed-id {FEED} --target-ts 2305843009213693952 --no-confirm"),
    Line(f"changefeed resume --changefeed-id {FEED}"),
    Line(f"changefeed pause --changefeed-id {FEED}"),
    Line(f"changefeed resume --changefeed-id {FEED} --overwrite-checkpoint-ts now --no-confirm"),
    Line("capture list --json", _names("id is-owner address cluster-id")),
    Line("processor list --json", _names("changefeed_id capture_id")),
    Line(f"processor query --changefeed-id {FEED} --json", _names("table_ids")),
    Line("tso query", text="4"),
    Line(f"changefeed move-table -c {FEED} -t 1 -d x"),
    Line(f"changefeed remove --changefeed-id {FEED}"),
    Line("unsafe reset --no-confirm"),
    Line("unsafe show-metadata", text="Key: "),
    Line("unsafe delete-service-gc-safepoint"),
]  # fmt: skip
