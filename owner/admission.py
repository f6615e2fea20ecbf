"""What is checked before a changefeed is made, or begins elsewhere: id, times, sink, ledger."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from cdc.base.errors import InvalidError
from cdc.base.ids import FeedId
from cdc.base.ts import Ts, compose, to_text
from cdc.coord.feed_config import ShardMode
from owner.replica_config import sink_section
from sink.contract import Sink, SinkDriver
from sink.open import open_sink

_ID = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*\Z")
_RESERVED = frozenset({"owner", "capture", "task", "changefeed", "job", "meta"})


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


def changefeed_id(given: str) -> str:
    """The id that was given, or a random one; raises ChangefeedIdInvalid."""
    feed = given or str(uuid.uuid4())
    if not _ID.match(feed) or len(feed) > 128 or feed in _RESERVED:
        raise ChangefeedIdInvalid(
            f"{feed[:130]!r} is not a changefeed id",
            hint="letters, digits and single hyphens between them, at most 128 characters",
        )
    return feed


def check_times(start_ts: Ts, target_ts: Ts, now_ms: int) -> None:
    """Raises StartTsInvalid or TargetTsBeforeStartTs; a start of 0 is now, a target of 0 none."""
    if start_ts > compose(now_ms + 1):
        raise StartTsInvalid(
            f"start-ts {start_ts} is in the future",
            hint="0 starts now; cdc cli tso query shows the present ts",
        )
    check_target(start_ts or compose(now_ms), target_ts)


def check_target(start_ts: Ts, target_ts: Ts) -> None:
    """Raises TargetTsBeforeStartTs if there is a target that is not after ``start_ts``."""
    if target_ts and target_ts <= start_ts:
        raise TargetTsBeforeStartTs(
            f"target-ts {target_ts} is not after {start_ts} ({to_text(start_ts)})",
            hint="give a later target-ts, or 0 for none",
        )


def configured_sink(sink_uri: str, config: Mapping[str, Any]) -> Sink:
    """The sink of a configuration in either spelling, which need not have been checked.

    Raises SinkUriMissing, ConfigInvalid, or the invalid errors of ``open_sink``.
    """
    if not sink_uri:
        raise SinkUriMissing(
            "no sink URI", hint="--sink-uri 'kafka://host:9092/topic?protocol=canal-json'"
        )
    section = sink_section(config)
    case_sensitive = config.get("case_sensitive", config.get("case-sensitive")) is True
    mode = config.get("shard_mode", config.get("shard-mode"))
    return open_sink(
        sink_uri,
        section,
        case_sensitive=case_sensitive,
        merging=mode is not None,
        by_name=mode == ShardMode.OPTIMISTIC,
    )


def newest_incarnation(driver: SinkDriver, feed: FeedId, replaced: str = "") -> int:
    """The newest incarnation of the changefeed that the sink's ledger knows, 0 if none.

    Raises LedgerForeign if a changefeed of this name of another installation has its ledger there,
    and that is not the one ``replaced``, whose entries are removed; else what ``admit`` raises.
    """
    newest = 0
    for known in sorted(driver.admit(feed)):
        if known.installation == feed.installation:
            newest = max(newest, known.incarnation)
        elif known.installation == replaced:
            driver.forget(known, 0)
        else:
            raise _foreign(known)
    return newest


def _foreign(known: FeedId) -> LedgerForeign:
    return LedgerForeign(
        f"installation {known.installation} delivers a changefeed of this id there",
        object=f"changefeed {known.name}",
        hint="choose another id; or, if that installation is gone for good, give "
        f"--replace-installation {known.installation}",
    )
