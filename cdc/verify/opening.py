"""From a changefeed to its verification: which servers, which tables, which sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cdc.base.clock import Clock
from cdc.base.errors import InvalidError
from cdc.base.matcher import parse_matcher
from cdc.base.secrets import mask_uri
from cdc.base.ts import MAX_TS
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import FeedInfo, UpstreamInfo
from cdc.logical.parts import KnownParts
from cdc.source.settings import SourceSettings
from cdc.source.statements import History
from cdc.verify.delivery import FeedProgress, LogDelivery
from cdc.verify.formats import TOPIC_FORMS
from cdc.verify.job import Job
from cdc.verify.running import Run, Task
from cdc.verify.sessions import TargetSession, UpstreamServers
from cdc.verify.table import CompareOptions
from cdc.verify.widened import Kept
from filter.online import OnlineDdl
from filter.rules import TableRules
from sink.dispatch.extracted import Given, given_columns
from sink.dispatch.target import TargetRouter
from sink.kafka.settings import SCHEMES as KAFKA
from sink.kafka.settings import KafkaSettings
from sink.mysql.settings import SCHEMES as MYSQL
from sink.mysql.settings import MysqlSettings


class VerifyNotSupported(InvalidError):
    """The sink cannot be read back."""

    code = "TG:ErrVerifyNotSupported"


@dataclass(frozen=True)
class OpenedFeed:
    """A changefeed with all that its verification reads. Holds passwords.

    ``log`` is the folder of the upstream's change log; ``progress`` and ``kept`` ask the store, the
    latter for what the target keeps of columns that tables have dropped, by its tables' names;
    ``scratch`` is a folder for what memory does not take.
    """

    info: FeedInfo
    upstream: UpstreamInfo
    log: Path
    progress: Callable[[], FeedProgress]
    source: SourceSettings
    clock: Clock
    kept: Callable[[], Mapping[str, Kept]] = dict
    scratch: Path | None = None


def open_job(feed: OpenedFeed, patterns: Sequence[str], options: CompareOptions) -> Job:
    """A verification that has not begun. Raises an InvalidError for what cannot be verified."""
    config = FeedConfig.model_validate(feed.info.config)
    names, given, work = _work(feed.info.sink_uri, config)
    rules = TableRules(config.filter.rules, case_sensitive=config.case_sensitive)
    asked = parse_matcher(patterns or ["*.*"], case_sensitive=config.case_sensitive)
    delivery = LogDelivery(
        feed.log, feed.upstream.server_kind, feed.progress, feed.clock, options.wait_s
    )
    tools, position = _logged(feed.log, config)
    patterns = feed.upstream.logical_tables

    def matches(schema: str, name: str) -> bool:
        asked_for = rules.matches(schema, name) and asked.matches(schema, name)
        return asked_for and not tools(schema, name)

    def parts_now() -> KnownParts | None:
        with closing(ChangeLog.open(feed.log)) as log:
            return KnownParts.at(patterns, log.refresh().position) if patterns else None

    task = Task(
        open_upstream=lambda: UpstreamServers(feed.upstream, feed.source),
        delivery=delivery,
        matches=matches,
        keyless=config.force_replicate,
        options=options,
        case_sensitive=config.case_sensitive,
        mariadb=feed.upstream.server_kind == "mariadb",
        names=names,
        given=given,
        widened=config.by_name,
        kept=lambda target: feed.kept().get(".".join(target), {}),
        logical=KnownParts.at(patterns, position) if patterns else None,
        logical_now=parts_now,
        scratch=feed.scratch,
    )
    return Job(feed.info.id, Run(task), work, delivery.close, feed.clock)


def _logged(
    folder: Path, config: FeedConfig
) -> tuple[Callable[[str, str], bool], Mapping[str, Any]]:
    """Which tables a tool of online schema change has made, as they are not delivered; and where
    the log stands.
    """
    with closing(ChangeLog.open(folder)) as log:
        state = log.refresh()
        schemas = History(log, state.resolved_ts).versions.at(MAX_TS)
    online = OnlineDdl(config)
    return lambda schema, name: online.hides(schemas, schema, name), state.position


def _work(
    sink_uri: str, config: FeedConfig
) -> tuple[TargetRouter, Callable[[str, str], Given], Callable[[Run], None]]:
    """Names at the target, columns that are given by names there, and what compares."""
    scheme = urlsplit(sink_uri).scheme
    if scheme in KAFKA:
        topics = KafkaSettings.parse(sink_uri, config.sink)
        if topics.protocol not in TOPIC_FORMS:
            raise _not_supported(sink_uri, f"messages of {topics.protocol} cannot be read back")
        names = TargetRouter.of(
            topics.dispatchers, case_sensitive=config.case_sensitive, merging=config.merging
        )
        given = partial(given_columns, topics.dispatchers, names)
        return names, given, lambda run: run.topics(topics)
    if scheme in MYSQL:
        server = MysqlSettings.parse(
            sink_uri, config.sink, case_sensitive=config.case_sensitive, merging=config.merging
        )
        return server.names, server.given, lambda run: run.servers(lambda: TargetSession(server))
    raise _not_supported(sink_uri, f"a sink of scheme {scheme!r} cannot be read back")


def _not_supported(sink_uri: str, what: str) -> VerifyNotSupported:
    return VerifyNotSupported(
        what,
        object=mask_uri(sink_uri),
        hint=f"verify works for {' and '.join(TOPIC_FORMS)} in Kafka topics, and for databases",
    )
