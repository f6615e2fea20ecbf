"""Which sink a URI names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from cdc.coord.feed_config import FeedConfig
from sink.binlog.settings import SCHEMES as BINLOG
from sink.binlog.sink import BinlogSink
from sink.blackhole.settings import SCHEMES as BLACKHOLE
from sink.blackhole.sink import BlackholeSink
from sink.contract import Sink
from sink.dispatch.read import read_dispatchers
from sink.errors import SinkOptionNotSupported, SinkURIInvalid
from sink.file.settings import SCHEMES as FILE
from sink.file.sink import FileSink
from sink.kafka.settings import SCHEMES as KAFKA
from sink.kafka.sink import KafkaSink
from sink.mysql.settings import ALL_SCHEMES as MYSQL
from sink.mysql.sink import MysqlSink

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,30})://")
_KINDS: Mapping[str, Callable[..., Sink]] = {
    **dict.fromkeys(KAFKA, KafkaSink),
    **dict.fromkeys(MYSQL, MysqlSink),
    **dict.fromkeys(FILE, FileSink),
    **dict.fromkeys(BINLOG, BinlogSink),
    **dict.fromkeys(BLACKHOLE, BlackholeSink),
}


def open_sink(
    sink_uri: str,
    sink_config: Mapping[str, Any],
    *,
    case_sensitive: bool = False,
    merging: bool = False,
    by_name: bool = False,
) -> Sink:
    """The sink of a URI and a ``sink`` section; ``case_sensitive`` is about table patterns.

    ``merging``: several tables may become one there (``shard-mode``); ``by_name``: they may have
    other columns than it, which changes while their rows come.
    Raises an ``InvalidError`` with one hint for what cannot be used. Connects to nothing.
    """
    found = _SCHEME.match(sink_uri)
    scheme = found[1].lower() if found else ""
    kind = _KINDS.get(scheme)
    if kind is None:
        raise SinkURIInvalid(
            f"there is no sink for scheme {scheme!r}",
            object="sink URI",
            hint=f"use one of {', '.join(_KINDS)}",
        )
    if kind not in (MysqlSink, KafkaSink):
        _extracts_nothing(sink_config)
    sink = kind(sink_uri, sink_config, case_sensitive=case_sensitive, merging=merging)
    return sink.by_name() if by_name and isinstance(sink, MysqlSink) else sink


def _extracts_nothing(sink_config: Mapping[str, Any]) -> None:
    for i, rule in enumerate(read_dispatchers(sink_config.get("dispatchers") or ())):
        if rule.extracts:
            raise SinkOptionNotSupported(
                "columns extracted from names are for databases and for Kafka",
                object=f"sink.dispatchers[{i}]",
                hint="remove extract-table, extract-schema and extract-source",
            )


def sink_of(sink_uri: str, config: FeedConfig) -> Sink:
    """The sink of a changefeed, by its URI and configuration. Raises as :func:`open_sink` does."""
    return open_sink(
        sink_uri,
        config.sink,
        case_sensitive=config.case_sensitive,
        merging=config.merging,
        by_name=config.by_name,
    )
