"""What the owner's tick of a changefeed goes by: the store, its log, what runs at its target."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cdc.base.clock import Clock
from cdc.base.errors import ErrorKind, TidegateError
from cdc.base.ts import Ts
from cdc.coord.contract import Held, StoredKey
from cdc.coord.feed_config import DdlPolicy, FeedConfig
from cdc.coord.keys import Keys
from cdc.coord.messages import DdlEntries, ErrorInfo, FeedInfo, Report, UpstreamStatus
from owner.ddl import FeedScope
from owner.executor import Executor
from owner.logs import Logs, UpstreamLog
from owner.retry import RetryPolicy
from owner.scope import scope_of
from owner.state import ACTIVE
from owner.stored_values import StoredValues
from owner.target_ties import TargetTies
from owner.tick import FeedInput, FeedTick, scan_from


@dataclass(slots=True)
class OwnedFeed:
    """The owner's working copy of one changefeed; ``shown`` is what the store says of its DDLs.

    ``held`` guards what is written of it.
    """

    held: Held
    tick: FeedTick = field(default_factory=FeedTick)
    capture: str = ""
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    ddl_policy: DdlPolicy = DdlPolicy.AUTO
    sync_interval_ms: int = 0
    scope: FeedScope | None = None
    scope_revision: int = 0
    ties: TargetTies = field(default_factory=TargetTies)
    invalid: ErrorInfo | None = None
    forgotten_ts: Ts = 0
    shown: DdlEntries | None = None


class FeedInputs:
    """Makes the inputs of ticks; for the owner's thread."""

    def __init__(
        self,
        keys: Keys,
        stored: StoredValues,
        logs: Logs,
        executor: Executor,
        policy: RetryPolicy,
        clock: Clock,
    ) -> None:
        self._keys = keys
        self._stored = stored
        self._logs = logs
        self._executor = executor
        self._policy = policy
        self._clock = clock
        # By upstream, each with its resolved ts.
        self._open_logs: dict[str, tuple[UpstreamLog, Ts]] = {}

    def begin_turn(self) -> None:
        """Look at the logs anew: within a turn each is looked at once."""
        self._open_logs = {}

    def look(self, entry: StoredKey, info: FeedInfo, feed: OwnedFeed) -> FeedInput:
        """What the tick of a changefeed goes by, as ``entry`` has it."""
        stored = self._stored
        status = stored.status(info)
        report = stored.derived(self._keys.report(feed.capture, info.id), Report)
        scope = self._scope(entry, info, feed)
        if feed.shown is None:
            feed.shown = stored.ddls(info.id)
        above = scan_from(feed.tick, info, status)
        seen = FeedInput(
            info=info,
            status=status,
            report=report,
            resolved_ts=0,
            ddls_above=above,
            ddls=(),
            scope=scope,
            ddl_policy=feed.ddl_policy,
            sync_interval_ms=feed.sync_interval_ms,
            policy=feed.policy,
            # A new owner's first look too: what had ended before it is still shown.
            shown=feed.shown,
            orders=stored.orders(info.id),
        )
        if feed.invalid is not None:
            return replace(seen, changer_error=feed.invalid)
        if info.copies:
            # Nothing is delivered, and no change is judged: both begin at the copied rows.
            return seen
        if feed.tick.epoch and (info.state in ACTIVE or self._executor.knows(info)):
            progress = self._executor.progress(info)
            seen = replace(
                seen,
                scope=replace(scope, ties=progress.ties),
                recorded=progress.recorded,
                outcomes=progress.outcomes,
                changer_error=progress.error,
                synced=progress.synced,
                decisions=stored.decisions(info.id),
            )
        return self._with_log(seen, feed) if info.state in ACTIVE else seen

    def _scope(self, entry: StoredKey, info: FeedInfo, feed: OwnedFeed) -> FeedScope:
        """What the changefeed's configuration says, read anew when that has changed."""
        if feed.scope is None or feed.scope_revision != entry.mod_revision:
            config = FeedConfig.model_validate(info.config)
            feed.policy = replace(self._policy, stuck_s=config.changefeed_error_stuck_duration)
            feed.ddl_policy = config.ddl_policy
            feed.sync_interval_ms = config.sync_interval_ms
            feed.scope, feed.invalid = scope_of(info, config, self._clock)
            feed.scope_revision = entry.mod_revision
            feed.ties = TargetTies(feed.scope.filter.targets)
        return feed.scope

    def _with_log(self, seen: FeedInput, feed: OwnedFeed) -> FeedInput:
        """The input with the schema changes that its log has above those scanned."""
        upstream = seen.info.upstream
        try:
            log, resolved = self._opened(upstream)
            above = seen.ddls_above
            ddls = log.ddls(above, resolved) if resolved > above else ()
            schemas = log.schemas()
            seen = replace(seen, scope=feed.ties.in_scope(seen.scope, schemas, ddls))
        except TidegateError as e:
            if e.kind is ErrorKind.TRANSIENT:
                return seen
            return replace(seen, log_error=ErrorInfo.of(e, self._clock.now_ms()))
        status = self._stored.derived(self._keys.upstream_status(upstream), UpstreamStatus)
        error = status.error if status else None
        if error is not None and error.kind == ErrorKind.TRANSIENT:
            error = None
        return replace(seen, resolved_ts=resolved, ddls=ddls, schemas=schemas, upstream_error=error)

    def _opened(self, upstream: str) -> tuple[UpstreamLog, Ts]:
        known = self._open_logs.get(upstream)
        if known is None:
            log = self._logs(upstream)
            known = self._open_logs[upstream] = log, log.resolved_ts()
        return known
