"""What the destinations of a changefeed have acknowledged: a ledger that knows less has gone back.

A target that was restored, or has failed over to a replica that lacked something, shows an older
ledger with the older rows. Taken for "nothing new" that would leave rows out. The other way round a
data directory that was restored has an older log: what it pulls anew may get other ts than those
that the ledger knows. Either is an error, and nothing is delivered.

All this is a lower bound: it is written from time to time, not with each window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cdc.base.clock import Clock
from cdc.base.errors import DefiniteError, TidegateError
from cdc.base.ids import FeedId
from cdc.base.position import Position, stand
from cdc.base.ts import Ts, to_text
from cdc.coord import stored
from cdc.coord.acknowledgements import behind, read
from cdc.coord.contract import Put, Store
from cdc.coord.keys import Keys
from cdc.coord.messages import Acknowledgements, FeedInfo
from sink.contract import Destination

_EVERY_S = 1.0
_NOTHING = Position(-1)


class LedgerWentBack(DefiniteError):
    """The sink's ledger knows less than the sink has acknowledged."""

    code = "TG:ErrLedgerWentBack"


class LogBehindLedger(DefiniteError):
    """The sink's ledger knows more than the change log did: the data directory is an older copy."""

    code = "TG:ErrLogBehindLedger"


class Acknowledged:
    """Of one incarnation of a changefeed, in this process; used by one thread at a time."""

    def __init__(self, store: Store, keys: Keys, feed: FeedId, clock: Clock) -> None:
        self.feed = feed
        self._store = store
        self._key = keys.acknowledged(feed.name)
        self._clock = clock
        known = read(store, keys, feed)
        self._positions = dict(known.by_destination())
        self._log_ts = known.log_ts
        self._saved_s = clock.monotonic()
        self.dirty = False

    def check(self, found: Mapping[Destination, Position]) -> None:
        """Hold what a recovery has found in the ledger against what is known.

        Raises LedgerWentBack or LogBehindLedger.
        """
        # Positions with the names of their transactions are held against the log itself.
        furthest = max((at.ts for at in found.values() if not stand(at).transactions), default=0)
        if self._log_ts is not None and furthest > self._log_ts:
            raise LogBehindLedger(
                f"the ledger stands at {_shown(furthest)}, but this data directory's change log"
                f" ended at {_shown(self._log_ts)} when the server started: it is an older copy",
                object=f"changefeed {self.feed}",
                hint="start with the newest copy; without one, compare the target with its upstream"
                " and resume with --overwrite-checkpoint-ts, which delivers again from that ts",
            )
        lost = behind(self._positions, found)
        if lost:
            name, number = lost[0]
            stands, was = found.get(lost[0]), self._positions[lost[0]]
            raise LedgerWentBack(
                f"the ledger of {name}/{number} stands at"
                f" {_shown(stands.ts) if stands else 'nothing'}, but {_shown(was.ts)} was"
                " acknowledged: the sink was restored, or has failed over to a copy that lacks the"
                " last rows",
                object=f"changefeed {self.feed}",
                position=f"{len(lost)} of {len(self._positions)} destinations",
                hint="cdc cli changefeed resume --rewind delivers again what the sink has lost;"
                " --overwrite-checkpoint-ts begins at a ts of your choice with an empty ledger",
            )
        if self._log_ts is not None:
            self._log_ts = None
            self.save()

    def of(self, destination: Destination) -> Position | None:
        """What a destination has acknowledged, None if nothing."""
        return self._positions.get(destination)

    def add(self, reached: Mapping[Destination, Position]) -> None:
        """Destinations have committed these positions."""
        for destination, at in reached.items():
            if at > self._positions.get(destination, _NOTHING):
                self._positions[destination] = Position(at.ts, at.row)
                self.dirty = True
        self.save_in_time()

    def save_in_time(self) -> None:
        """Write it down if that is due."""
        if self.dirty and self._clock.monotonic() - self._saved_s >= _EVERY_S:
            self.save()

    def save(self) -> None:
        """Write it down."""
        value = Acknowledgements.of(self.feed.incarnation, self._positions, self._log_ts)
        self._store.txn([], [Put(self._key, value.model_dump_json().encode())], durable=False)
        self._saved_s = self._clock.monotonic()
        self.dirty = False


def note_logs(
    store: Store, keys: Keys, log_ts: Callable[[str], Ts], upstream: str | None = None
) -> None:
    """Write down where each changefeed's log ends, before anything is pulled.

    Of one ``upstream`` alone if it is given.

    It is compared with the ledger when the changefeed is next taken over, be it in a later process.
    ``log_ts`` gives the resolved ts of an upstream's log.
    """
    for entry in store.range(keys.feed_info_prefix)[1]:
        try:
            info = stored.read(entry, FeedInfo)
            if upstream not in (None, info.upstream):
                continue
            known, ends = read(store, keys, info.ledger_id), log_ts(info.upstream)
        except TidegateError:
            # Whoever delivers it meets the same error.
            continue
        least = ends if known.log_ts is None else min(ends, known.log_ts)
        value = known.model_copy(update={"log_ts": least}).model_dump_json().encode()
        store.txn([], [Put(keys.acknowledged(info.id), value)])


def _shown(ts: Ts) -> str:
    return f"{ts} ({to_text(ts)})"
