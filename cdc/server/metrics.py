"""Prometheus metrics of a capture: what ``/metrics`` says, and who is told of what."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

import cdc
from cdc.base import measures
from cdc.base.clock import Clock
from cdc.base.parts import Parts
from cdc.changelog.settings import ChangelogSettings
from cdc.coord.messages import DdlEntries, ErrorInfo, FeedInfo, FeedStatus, UpstreamStatus
from cdc.server.processes import ProcessesScraped
from cdc.server.scraped import CaptureScraped, FeedsScraped, SeenFeed, UpstreamsScraped
from owner.copies import Reads


class Metrics:
    """Everything that can be scraped; ``observe_*`` take what the owner and the pullers see.

    ``logs`` is the folder whose disk is looked at.
    """

    def __init__(
        self,
        clock: Clock,
        parts: Parts | None = None,
        logs: Path | None = None,
        settings: ChangelogSettings | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self.capture = CaptureScraped(
            parts or Parts(), cdc.__version__, logs, settings or ChangelogSettings()
        )
        self._feeds = FeedsScraped(clock)
        self._upstreams = UpstreamsScraped(clock)
        for collector in (
            *(self.capture, self._feeds, self._upstreams),
            *(ProcessesScraped(), _Measured()),
        ):
            self.registry.register(collector)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        # The last error of each that was counted: the same one is seen many times.
        self._counted: dict[tuple[str, str], tuple[str, int]] = {}

    def observe_feed(
        self, info: FeedInfo, status: FeedStatus, ddls: DdlEntries, reads: Reads
    ) -> None:
        """Called by the owner after each tick of a changefeed."""
        self._feeds.see(SeenFeed(info, status, ddls, reads))
        if self._is_new(measures.FEED, info.id, info.error) and info.error is not None:
            measures.FEED_ERRORS.labels(info.id, info.error.code).inc()

    def keep_feeds(self, names: Collection[str], captures: int) -> None:
        """Called by the owner in each turn: all changefeeds, and how many captures there are."""
        self._feeds.keep(names, captures)
        measures.keep(measures.FEED, names)
        for kind, name in list(self._counted):
            if kind == measures.FEED and name not in names:
                del self._counted[kind, name]

    def forget_feed(self, name: str) -> None:
        """End the series of a removed changefeed."""
        self._feeds.forget(name)
        measures.forget(measures.FEED, name)
        self._counted.pop((measures.FEED, name), None)

    def observe_upstream(self, name: str, status: UpstreamStatus) -> None:
        """Called whenever a puller says something."""
        self._upstreams.see(name, status)
        if self._is_new(measures.UPSTREAM, name, status.error) and status.error is not None:
            measures.UPSTREAM_ERRORS.labels(name, status.error.code).inc()

    def forget_upstream(self, name: str) -> None:
        """End the series of a removed upstream."""
        self._upstreams.forget(name)
        measures.forget(measures.UPSTREAM, name)
        self._counted.pop((measures.UPSTREAM, name), None)

    def _is_new(self, kind: str, name: str, error: ErrorInfo | None) -> bool:
        if error is None or self._counted.get((kind, name)) == (error.code, error.time_ms):
            return False
        self._counted[kind, name] = (error.code, error.time_ms)
        return True

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)


class _Measured(Collector):
    """What the parts of the process have counted."""

    def collect(self) -> Iterable[Metric]:
        """All families."""
        return measures.REGISTRY.collect()
