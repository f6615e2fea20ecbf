"""Creating a changefeed: everything is checked before anything is written, in TiCDC's order."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import cdc
from cdc.api.models import CreateChangefeed, UpdateChangefeed
from cdc.base.collector import collection_paused
from cdc.base.errors import InvalidError, TidegateError
from cdc.base.ids import FeedId
from cdc.base.position import Position, Stand, stand
from cdc.base.ts import Ts, compose, physical_ms, to_text
from cdc.coord import acknowledgements
from cdc.coord.feed_config import FeedConfig
from cdc.coord.installation import installation
from cdc.coord.messages import Acknowledgements, FeedInfo, FeedStatus
from cdc.coord.stored import read
from cdc.schema.snapshot import Schema
from cdc.schema.table import Table
from cdc.server.capture import Capture
from filter.passing import Passing
from filter.rules import TableRules
from filter.traps import traps
from owner import admin
from owner.replica_config import ConfigInvalid, check
from owner.rerouting import check_rerouting
from owner.state import FeedEvent, transition
from sink.contract import Sink, SinkDriver
from sink.open import open_sink

_log = logging.getLogger("changefeed")
_ID = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*\Z")
_RESERVED = frozenset({"owner", "capture", "task", "changefeed", "job", "meta"})
_SHOWN_TABLES = 20
_OLD_S = 24 * 3600


class ChangefeedIdInvalid(InvalidError):
    """The id of a changefeed breaks the rules."""

    code = "TG:ErrInvalidChangefeedID"


class SinkUriMissing(InvalidError):
    """No sink URI."""

    code = "TG:ErrSinkURIMissing"


class StartTsInvalid(InvalidError):
    """The start is in the future, or before the log."""

    code = "TG:ErrStartTsInvalid"


class TargetTsBeforeStartTs(InvalidError):
    """The target is not after the start."""

    code = "TG:ErrTargetTsBeforeStartTs"


class LedgerForeign(InvalidError):
    """A changefeed of this id of another installation has its ledger in the same sink."""

    code = "TG:ErrLedgerForeign"


class RewindRefused(InvalidError):
    """The sink's ledger has not gone back, or nothing is left of it to go on from."""

    code = "TG:ErrRewindRefused"


class TableIneligible(InvalidError):
    """Replicated tables without a key that identifies their rows."""

    code = "TG:ErrTableIneligible"


def create(capture: Capture, asked: CreateChangefeed) -> FeedInfo:
    """The new changefeed, written to the store; raises the first thing that is wrong."""
    store, keys, now_ms = capture.store, capture.keys, capture.clock.now_ms()
    feed = _id(asked.changefeed_id)
    if store.get(keys.feed_info(feed)) is not None:
        raise admin.ChangefeedExists(
            "a changefeed of this id exists",
            object=f"changefeed {feed}",
            hint="choose another id, or remove the old one first",
        )
    capture.upstreams.info(asked.upstream)
    driver = _sink(asked.sink_uri, asked.replica_config)
    _times(asked.start_ts, asked.target_ts, now_ms)
    config = check(asked.replica_config)
    start_ts, schema = capture.upstreams.schema_at(asked.upstream, asked.start_ts)
    if asked.target_ts and asked.target_ts <= start_ts:
        raise _target(start_ts, asked.target_ts)
    driver.verify(_verified(schema, config), mariadb=schema.session.mariadb)
    place = installation(store, keys)
    newest = _admitted(driver, FeedId(place, feed, 0), asked.replace_installation)
    info = FeedInfo(
        id=feed,
        installation=place,
        # Its ledger is a new one: what an older one has left does not count.
        incarnation=max(newest + 1, now_ms),
        upstream=asked.upstream,
        sink_uri=asked.sink_uri,
        config=config.model_dump(),
        start_ts=start_ts,
        target_ts=asked.target_ts,
        create_time_ms=now_ms,
        creator_version=cdc.__version__,
        epoch=now_ms,
    )
    # Until here nothing has changed: of two that create it at once, one is refused by this.
    admin.create(store, keys, info)
    return info


def _admitted(driver: SinkDriver, feed: FeedId, replaced: str = "") -> int:
    """The newest incarnation of the changefeed that the sink's ledger knows, 0 if none.

    Raises LedgerForeign if a changefeed of this name of another installation has its ledger there,
    and that is not the one ``replaced``, whose entries are removed.
    """
    newest = 0
    for known in sorted(driver.admit(feed)):
        if known.installation == feed.installation:
            newest = max(newest, known.incarnation)
        elif known.installation == replaced:
            driver.forget(known, 0)
        else:
            raise LedgerForeign(
                f"installation {known.installation} delivers a changefeed of this id there",
                object=f"changefeed {feed.name}",
                hint="choose another id; or, if that installation is gone for good, give "
                f"--replace-installation {known.installation}",
            )
    return newest


def warnings(capture: Capture, info: FeedInfo) -> list[str]:
    """What TiCDC warns of: an old start, event filters that catch more, tables without a key."""
    found = []
    age_s = (capture.clock.now_ms() - physical_ms(info.start_ts)) / 1000
    if age_s > _OLD_S:
        found.append(f"start-ts is {age_s / 3600:.0f} hours ago")
    config = FeedConfig.model_validate(info.config)
    found += traps(config)
    _, schema = capture.upstreams.schema_at(info.upstream, _reached(capture, info))
    names = _ineligible(schema, config)
    if names and config.force_replicate:
        found.append(
            "tables without a primary key or a not-null unique key are replicated, so their "
            f"consumers cannot tell rows apart: {_some(names)}"
        )
    elif names:
        found.append(
            "tables without a primary key or a not-null unique key are left out: " + _some(names)
        )
    return found


def resume(capture: Capture, feed: str, overwrite: int | Literal["now"]) -> FeedInfo:
    """Resume, from another ts than the checkpoint if one is given.

    Then it is checked as a start is, and the changefeed becomes a new incarnation, whose ledger is
    empty: what was delivered above that ts is delivered once more, what lies between the checkpoint
    and it is left out. The store changes all of that at once; the first recovery of the new
    incarnation fences what still runs of the old one.
    """
    store, keys, now_ms = capture.store, capture.keys, capture.clock.now_ms()
    _, info = admin.get(store, keys, feed)
    transition(info.state, FeedEvent.RESUME, f"changefeed {feed}")
    start_ts: Ts | None = None
    newest = 0
    if overwrite != 0:
        config = FeedConfig.model_validate(info.config)
        asked = 0 if overwrite == "now" else overwrite
        _times(asked, info.target_ts, now_ms)
        start_ts, schema = capture.upstreams.schema_at(info.upstream, asked)
        if info.target_ts and info.target_ts <= start_ts:
            raise _target(start_ts, info.target_ts)
        log = capture.owner_logs.log(info.upstream)
        log.check_kept(start_ts)
        driver = _sink(info.sink_uri, info.config)
        driver.verify(_tables(schema, config), mariadb=schema.session.mariadb)
        newest = _admitted(driver, info.ledger_id)
    capture.upstreams.revive(info.upstream)
    return admin.resume(store, keys, feed, now_ms, start_ts, newest=newest)


def rewind(capture: Capture, feed: str) -> FeedInfo:
    """Resume from where the sink's ledger stands, which has gone back: what it lost comes again.

    The ledger stays, so what it still has is not delivered twice. Raises RewindRefused if it has
    not gone back or has nothing to go on from, LogCollected if the log does not reach so far.
    """
    store, keys = capture.store, capture.keys
    _, info = admin.get(store, keys, feed)
    transition(info.state, FeedEvent.RESUME, f"changefeed {feed}")
    known = acknowledgements.read(store, keys, info.ledger_id)
    found = _sink(info.sink_uri, info.config).delivered(info.ledger_id)
    lost = acknowledgements.behind(known.by_destination(), found)
    if not lost or not found:
        raise RewindRefused(
            "the sink's ledger has all that was acknowledged"
            if found
            else "the sink's ledger knows nothing of the changefeed",
            object=f"changefeed {feed}",
            hint="resume without --rewind" if found else "resume with --overwrite-checkpoint-ts",
        )
    status = admin.status(store, keys, info)
    after = rewound(status, [stand(found.get(d, Position(info.start_ts))) for d in lost])
    capture.owner_logs.log(info.upstream).check_kept(after.checkpoint_ts)
    capture.upstreams.revive(info.upstream)
    kept = Acknowledgements.of(known.incarnation, found, known.log_ts)
    return admin.rewind(store, keys, feed, capture.clock.now_ms(), after, kept)


def rewound(status: FeedStatus, stands: Sequence[Stand]) -> FeedStatus:
    """The progress of a changefeed where destinations stand no higher than ``stands``."""
    main = min(status.main_ts or status.checkpoint_ts, *(s.resolved() for s in stands))
    names = status.tables.keys() | {table for s in stands for table in s.held}
    tables = {}
    for name in names:
        at = min(status.tables.get(name, main), *(s.of(name).resolved() for s in stands))
        if at < main:
            tables[name] = at
    least = min([main, *tables.values()])
    return FeedStatus(
        checkpoint_ts=least, resolved_ts=status.resolved_ts, main_ts=main, tables=tables
    )


def update(capture: Capture, feed: str, asked: UpdateChangefeed) -> FeedInfo:
    """Change sink, target or configuration of a changefeed that does not run."""
    _, info = admin.get(capture.store, capture.keys, feed)
    transition(info.state, FeedEvent.UPDATE, f"changefeed {feed}")
    changes: dict[str, Any] = {}
    config = FeedConfig.model_validate(info.config)
    if asked.replica_config is not None:
        config = check(asked.replica_config)
        changes["config"] = config.model_dump()
    if asked.sink_uri is not None:
        changes["sink_uri"] = asked.sink_uri
    if asked.sink_uri is not None or asked.replica_config is not None:
        sink_uri = changes.get("sink_uri", info.sink_uri)
        checkpoint_ts = _reached(capture, info)
        _, schema = capture.upstreams.schema_at(info.upstream, checkpoint_ts)
        after, tables = _open(sink_uri, config.model_dump()), _verified(schema, config)
        after.driver().verify(tables, mariadb=schema.session.mariadb)
        _admitted(after.driver(), info.ledger_id)
        old = FeedConfig.model_validate(info.config)
        before = _open(info.sink_uri, info.config)
        check_rerouting(info.ledger_id, before, after, _tables(schema, old), tables, checkpoint_ts)
    if asked.target_ts is not None:
        status = admin.status(capture.store, capture.keys, info)
        if asked.target_ts and asked.target_ts <= status.checkpoint_ts:
            raise _target(status.checkpoint_ts, asked.target_ts)
        changes["target_ts"] = asked.target_ts
    return admin.update(capture.store, capture.keys, feed, changes)


def _reached(capture: Capture, info: FeedInfo) -> Ts:
    """Its checkpoint: the schema of its start may have gone with the log."""
    return admin.status(capture.store, capture.keys, info).checkpoint_ts


def _id(given: str) -> str:
    feed = given or str(uuid.uuid4())
    if not _ID.match(feed) or len(feed) > 128 or feed in _RESERVED:
        raise ChangefeedIdInvalid(
            f"{feed[:130]!r} is not a changefeed id",
            hint="letters, digits and single hyphens between them, at most 128 characters",
        )
    return feed


def remove(capture: Capture, feed: str) -> None:
    """Remove a changefeed, then clear its ledger; nothing happens if there is none.

    A sink that cannot be reached does not keep the changefeed alive: a later changefeed of the
    same id clears the ledger when it starts.
    """
    entry = capture.store.get(capture.keys.feed_info(feed))
    if entry is None:
        return
    admin.remove(capture.store, capture.keys, feed)
    capture.metrics.forget_feed(feed)
    try:
        info = read(entry, FeedInfo)
        _sink(info.sink_uri, info.config).forget(info.ledger_id, capture.slots(feed))
    except TidegateError as e:
        _log.warning("changefeed %s: its ledger was not cleared: %s", feed, e)


def _sink(sink_uri: str, config: Mapping[str, Any]) -> SinkDriver:
    return _open(sink_uri, config).driver()


def _open(sink_uri: str, config: Mapping[str, Any]) -> Sink:
    if not sink_uri:
        raise SinkUriMissing(
            "no sink URI", hint="--sink-uri 'kafka://host:9092/topic?protocol=canal-json'"
        )
    section = config.get("sink") or {}
    if not isinstance(section, Mapping):
        raise ConfigInvalid("sink is not a table", object="sink", hint="write [sink]")
    case_sensitive = config.get("case_sensitive", config.get("case-sensitive")) is True
    return open_sink(sink_uri, section, case_sensitive=case_sensitive)


def _times(start_ts: Ts, target_ts: Ts, now_ms: int) -> None:
    if start_ts > compose(now_ms + 1):
        raise StartTsInvalid(
            f"start-ts {start_ts} is in the future",
            hint="0 starts now; cdc cli tso query shows the present ts",
        )
    if target_ts and target_ts <= (start_ts or compose(now_ms)):
        raise _target(start_ts or compose(now_ms), target_ts)


def _target(start_ts: Ts, target_ts: Ts) -> TargetTsBeforeStartTs:
    return TargetTsBeforeStartTs(
        f"target-ts {target_ts} is not after {start_ts} ({to_text(start_ts)})",
        hint="give a later target-ts, or 0 for none",
    )


def _verified(schema: Schema, config: FeedConfig) -> list[Table]:
    """The tables to deliver, with value expressions that fit all of them."""
    tables = _tables(schema, config)
    Passing(config, schema.session).check(tables)
    return tables


def matched_tables(schema: Schema, config: FeedConfig) -> list[Table]:
    """The tables that ``filter.rules`` match; no other is read."""
    rules = TableRules(config.filter.rules, case_sensitive=config.case_sensitive)
    names = list(schema)
    matching = zip(names, rules.matches_all(names), strict=True)
    with collection_paused():
        return [schema[name] for name, yes in matching if yes]


def _tables(schema: Schema, config: FeedConfig) -> list[Table]:
    """The tables to deliver: understood, and with a key unless the user says otherwise."""
    matched = matched_tables(schema, config)
    if config.force_replicate:
        return matched
    names = _ineligible(schema, config)
    if names and not config.ignore_ineligible_table:
        raise TableIneligible(
            f"no primary key and no not-null unique key: {_some(names)}",
            hint="add a key, exclude them in filter.rules, or set force-replicate or "
            "ignore-ineligible-table",
        )
    return [t for t in matched if t.handle_key]


def _ineligible(schema: Schema, config: FeedConfig) -> list[str]:
    return sorted(t.full_name for t in matched_tables(schema, config) if not t.handle_key)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN_TABLES} more" if len(names) > _SHOWN_TABLES else ""
    return ", ".join(names[:_SHOWN_TABLES]) + more
