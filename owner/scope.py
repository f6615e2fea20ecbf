"""What a changefeed delivers, out of its configuration, as far as schema changes care."""

from __future__ import annotations

from cdc.base.clock import Clock
from cdc.base.errors import TidegateError
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import ErrorInfo, FeedInfo
from filter.decision import DdlFilter
from owner.ddl import FeedScope
from sink.open import sink_of


def scope_of(
    info: FeedInfo, config: FeedConfig, clock: Clock
) -> tuple[FeedScope, ErrorInfo | None]:
    """What the changefeed delivers; the error of a configuration that no sink can take."""
    try:
        sink = sink_of(info.sink_uri, config)
        scope = FeedScope(
            DdlFilter(config),
            whole=sink.single_stream,
            apart=sink.tables_apart,
            optimistic=config.by_name,
        )
        return scope, None
    except TidegateError as e:
        error = ErrorInfo.of(e, clock.now_ms())
        return FeedScope(DdlFilter(FeedConfig())), error
