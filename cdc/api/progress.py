"""How far a changefeed is, judged from its change log: synced or not, and which tables it has."""

from __future__ import annotations

from contextlib import closing

from cdc.api.changefeed_models import Synced
from cdc.base.position import Position
from cdc.base.ts import Ts, compose, physical_ms, to_text
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import FeedInfo
from cdc.server.capture import Capture
from filter.rules import TableRules
from owner import admin

# A resolved ts so close to the checkpoint says that the upstream, not the sink, is behind.
_NEAR_MS = 5000
_DONE = "Data syncing is finished"
_WAIT = "The data syncing is not finished, please wait"
_UNSURE = (
    "Please check whether the upstream is online. If it is not, all that was pulled from it has "
    "been delivered; if it is, the data syncing is not finished, please wait"
)


def synced(capture: Capture, feed: str) -> Synced:
    """TiCDC's rule: no row for ``synced-check-interval``, a checkpoint that is not behind."""
    info = admin.get(capture.store, capture.keys, feed)[1]
    config = FeedConfig.model_validate(info.config)
    status = admin.status(capture.store, capture.keys, info)
    now_ms = capture.clock.now_ms()
    checkpoint = status.checkpoint_ts
    with closing(ChangeLog.open(capture.upstreams.log_folder(info.upstream))) as log:
        resolved = log.refresh().resolved_ts
        last = _last_row(log, info, config, checkpoint)
    rule = config.synced_status
    quiet = now_ms - physical_ms(last) > rule.synced_check_interval * 1000
    current = now_ms - physical_ms(checkpoint) < rule.checkpoint_interval * 1000
    text = _WAIT
    if quiet and current:
        text = _DONE
    elif quiet and physical_ms(resolved) - physical_ms(checkpoint) < _NEAR_MS:
        text = _UNSURE
    return Synced(
        synced=quiet and current,
        sink_checkpoint_ts=to_text(checkpoint),
        puller_resolved_ts=to_text(resolved),
        last_synced_ts=to_text(last),
        now_ts=to_text(compose(now_ms)),
        info=text,
    )


def table_ids(capture: Capture, info: FeedInfo) -> dict[int, str]:
    """Tables of the change log's dictionary that the changefeed's rules match."""
    with closing(ChangeLog.open(capture.upstreams.log_folder(info.upstream))) as log:
        log.refresh()
        return _matching(log, FeedConfig.model_validate(info.config))


def _matching(log: ChangeLog, config: FeedConfig) -> dict[int, str]:
    matches = TableRules(config.filter.rules, case_sensitive=config.case_sensitive).matches
    return {
        i: f"{entry.schema}.{entry.name}"
        for i, entry in log.tables.items()
        if matches(entry.schema, entry.name)
    }


def _last_row(log: ChangeLog, info: FeedInfo, config: FeedConfig, checkpoint: Ts) -> Ts:
    """Commit ts of the last row at or below the checkpoint; the changefeed's start if none."""
    tables = _matching(log, config)
    for segment in reversed(log.state.segments()):
        low = max(info.start_ts, log.state.first_ts, segment.first_ts - 1)
        high = min(checkpoint, segment.last_ts)
        if segment.first_ts and low < high and tables:
            runs = log.runs(Position(low), Position(high), tables=tables)
            if len(runs):
                return int(runs.commit_ts[-1])
    return info.start_ts
