"""What we have pulled, held against where the server stands: never resolved beyond a reset.

A server that is reset (``RESET MASTER``) keeps the dump of its old history attached: heartbeats go
on, transactions of the new history never come. So a heartbeat proves nothing. While nothing comes,
the resolved ts moves only to the clock of an answer of the server that (a) belongs to the history
that we read and (b) whose end we have reached. As the clock is asked first and the number of RESET
statements last, an answer that shows no new reset was wholly given before any. Everything here is
values; :mod:`cdc.source.asker` asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from cdc.binlog.gtid_set import GtidSet
from cdc.coord.messages import UpstreamInfo
from cdc.source.position import UpstreamPosition, file_number
from cdc.source.server_standing import ServerStanding

# A RESET is counted before it begins, and may wait for locks: so long the file is looked at.
_LOOK_S = 60.0
# A stream with nothing to say for so long, and so many heartbeats, has no more to come.
_STALL_S, _STALL_BEATS = 10.0, 2


class HistoryVerdict(Enum):
    """How the server stands to us."""

    FINE = "fine"
    BEHIND = "behind"
    STALLED = "stalled"
    RESET = "reset"
    OTHER_SERVER = "other server"


@dataclass(frozen=True, slots=True)
class Answer:
    """A standing, and where we were when we began to ask; ``at_s``: monotonic, of then too."""

    here: UpstreamPosition
    standing: ServerStanding
    at_s: float


@dataclass(frozen=True, slots=True)
class Vouching:
    """What the server has vouched for.

    ``known``: the last answer that belonged to our history. ``look_until_s``: until then the file's
    header is looked at with each answer. ``waiting``: the oldest answer whose end we have not
    reached, with the ``beats`` (heartbeats so far) when it came. ``vouched_us``: clock of the
    newest answer whose end we have reached, in microseconds.
    """

    known: ServerStanding | None = None
    look_until_s: float = 0.0
    waiting: Answer | None = None
    beats: int = 0
    vouched_us: int = 0


def doubtful(vouching: Vouching, standing: ServerStanding, now_s: float) -> bool:
    """Whether only the header of the file that we read can tell that it is the same file."""
    return now_s < vouching.look_until_s or _changed(vouching, standing)


def _changed(vouching: Vouching, standing: ServerStanding) -> bool:
    known = vouching.known
    return known is not None and (
        standing.resets != known.resets or standing.server_id != known.server_id
    )


def take(
    vouching: Vouching, registered: UpstreamInfo, answer: Answer, beats: int, now_s: float
) -> tuple[Vouching, HistoryVerdict, str]:
    """Take an answer: FINE (it is of our history), RESET or OTHER_SERVER, and why.

    BEHIND: nothing can be said before it is known which file we read.
    """
    here, standing = answer.here, answer.standing
    if registered.server_uuid and standing.uuid != registered.server_uuid:
        return (
            vouching,
            HistoryVerdict.OTHER_SERVER,
            f"the server is another one: uuid {standing.uuid}",
        )
    # MariaDB has no uuid, and its server_id may be changed: so it only explains what files show.
    if registered.server_uuid or registered.server_id in (0, standing.server_id):
        verdict, who = HistoryVerdict.RESET, "the server was reset: "
    else:
        verdict = HistoryVerdict.OTHER_SERVER
        who = f"the server is another one, with server_id {standing.server_id}: "
    lost = _lost(here, standing)
    if lost:
        return vouching, verdict, who + lost
    changed = _changed(vouching, standing)
    if changed or now_s < vouching.look_until_s:
        if standing.created is None or not here.created:
            return vouching, HistoryVerdict.BEHIND, ""
        other = _other_file(vouching, here, standing)
        if other:
            return vouching, verdict, who + other
    if changed:
        vouching = replace(vouching, look_until_s=now_s + _LOOK_S)
    if vouching.waiting is None:
        vouching = replace(vouching, waiting=answer, beats=beats)
    return replace(vouching, known=standing), HistoryVerdict.FINE, ""


def _other_file(vouching: Vouching, here: UpstreamPosition, standing: ServerStanding) -> str:
    """Why the file of this name is not the one that we read; empty if it is."""
    created = standing.created or 0
    if here.in_other_file(created, standing.written_by):
        return f"{here.file} is not the file that we read"
    older = standing.first_file < file_number(here.file)
    known = vouching.known
    if known is not None and created >= known.clock_us // 1_000_000 and not older:
        # Header times are seconds: a file of that very second may be the old or the new one,
        # unless older ones are there, which a reset would have removed.
        return f"{here.file} may be another file than the one that we read"
    return ""


def _lost(here: UpstreamPosition, standing: ServerStanding) -> str:
    """What we have pulled that the server does not have."""
    if here.gtid is not None and standing.executed is not None:
        have = GtidSet.parse(standing.executed).union(GtidSet.parse(standing.owned))
        missing = GtidSet.parse(here.gtid).subtract(have)
        return f"the server no longer has {missing}" if missing else ""
    if not here.file:
        return ""
    if _place(standing.file, standing.pos) < _place(here.file, here.pos):
        return f"its binlog ends at {standing.file}:{standing.pos}, before {here.file}:{here.pos}"
    return ""


def settle(
    vouching: Vouching, here: UpstreamPosition, beats: int, now_s: float
) -> tuple[Vouching, HistoryVerdict]:
    """See whether we have reached what the server had: FINE, BEHIND or STALLED.

    ``here`` is behind the last complete transaction, ``beats`` counts the heartbeats so far. Only
    to be asked while the stream has nothing more.
    """
    waiting = vouching.waiting
    if waiting is None:
        return vouching, HistoryVerdict.FINE
    if not _reached(here, waiting.standing):
        idle = beats - vouching.beats >= _STALL_BEATS and now_s - waiting.at_s >= _STALL_S
        return vouching, HistoryVerdict.STALLED if idle else HistoryVerdict.BEHIND
    clock = max(vouching.vouched_us, waiting.standing.clock_us)
    return replace(vouching, waiting=None, vouched_us=clock), HistoryVerdict.FINE


def _reached(here: UpstreamPosition, standing: ServerStanding) -> bool:
    if here.gtid is not None and standing.executed is not None:
        due = GtidSet.parse(standing.executed).subtract(GtidSet.parse(standing.purged))
        if GtidSet.parse(here.gtid).contains(due):
            return True
    return _place(here.file, here.pos) >= _place(standing.file, standing.pos)


def _place(file: str, pos: int) -> tuple[int, int]:
    return file_number(file), pos
