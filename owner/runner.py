"""The owner as a thread: sees the store and the logs, ticks, writes the effects."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from cdc.base import measures
from cdc.base.clock import Clock
from cdc.base.errors import TidegateError
from cdc.base.log_fields import about
from cdc.base.parts import Parts
from cdc.base.ts import Ts
from cdc.base.turns import Turns
from cdc.coord.contract import (
    MAX_OPS,
    Compare,
    Delete,
    Held,
    Op,
    Put,
    Store,
    StoredKey,
    StoreFailed,
    Unchanged,
)
from cdc.coord.keys import Keys, last
from cdc.coord.messages import (
    Assignment,
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
)
from cdc.coord.stored import StoredValueUnreadable
from owner.broken import Broken
from owner.changes import next_retry_ms, undecided
from owner.concerned import EVERY, Concerned
from owner.copies import read_now
from owner.effect_ops import effect_ops
from owner.executor import (
    Executor,
    MakeTables,
    OpenChanger,
    OpenSyncPoints,
    no_points,
    no_tables,
)
from owner.feed_inputs import FeedInputs, OwnedFeed
from owner.guards import Guards, HeldNow, OwnershipLost
from owner.leftovers import leftovers
from owner.logs import Logs
from owner.ports import FeedObserver
from owner.retry import RetryPolicy
from owner.state import ACTIVE, FeedEvent, allowed, transition
from owner.stored_values import StoredValues
from owner.sync_points import SyncTurn
from owner.tick import Effects, FeedInput, FeedTick, step
from owner.waking import Waking

_log = logging.getLogger("owner")

_IDLE_S = 30.0
# While it must see whether a table is a copy; what shows it is a DDL, which wakes it.
_UNDECIDED_S = 5.0
_PAUSE_MAX_S = 0.2
# Of the time between two turns for which nobody waits a turn takes this part at most.
_PROGRESS_PAUSES = 5
# Schema changes that all have behind them take room, and no more than that.
_FORGET_S = 1.0
# What is measured of changefeeds that are gone ends so often, and when one goes.
_KEEP_S = 30.0
# Each has a compare, and there may be one guard for each.
_TOGETHER = MAX_OPS // 2


@dataclass(frozen=True, slots=True)
class _Ticked:
    """A tick of a changefeed, and what must be written before it counts."""

    entry: StoredKey
    info: FeedInfo
    feed: OwnedFeed
    seen: FeedInput
    tick: FeedTick
    effects: Effects
    ops: tuple[Op, ...]

    @property
    def progress_only(self) -> bool:
        """Whether nobody waits for it: it says how far the changefeed is, and nothing else."""
        effects = self.effects
        return len(self.ops) == 1 and effects.status is not None and effects.info is None

    @property
    def begins_rounds(self) -> bool:
        """Whether changes of a shard group are about to be carried out together."""
        return any(order.ddl.ts in self.tick.changes.rounds for order in self.effects.orders)


class OwnerRunner:
    """Runs the owner's ticks of the changefeeds that ``guards`` leaves to this capture.

    Every write compares what guards its changefeed, so whoever was replaced without noticing
    changes nothing any more. ``only`` is the capture that delivers, where others cannot, as they do
    not have the logs.
    """

    def __init__(
        self,
        store: Store,
        keys: Keys,
        guards: Guards,
        logs: Logs,
        open_changer: OpenChanger,
        clock: Clock,
        *,
        policy: RetryPolicy | None = None,
        observer: FeedObserver | None = None,
        parts: Parts | None = None,
        only: str = "",
        make_tables: MakeTables = no_tables,
        open_points: OpenSyncPoints = no_points,
    ) -> None:
        self._only = only
        self._store = store
        self._keys = keys
        self._guards = guards
        self._owner: Held | None = None
        # Of the changefeeds that are ours, by name.
        self._held: dict[str, Held] = {}
        self._turning = threading.Lock()
        self._logs = logs
        self._clock = clock
        self._observer = observer
        self._feeds: dict[str, OwnedFeed] = {}
        self._broken: dict[str, Broken] = {}
        self._stored = StoredValues(keys)
        self._progress: list[_Ticked] = []
        # When each changefeed must be ticked though nothing concerns it, in the clock's seconds.
        self._due: dict[str, float] = {}
        self._turns = Turns(clock.monotonic())
        self._captures: list[str] = []
        self._observed: tuple[set[str], int] | None = None
        self._observed_s = 0.0
        self._forgot_s = -_FORGET_S
        self._timeout_s = 0.0
        self._stop = threading.Event()
        parts = parts or Parts()
        self._part = parts.make("owner", self._look_on, self._stop)
        self._waking = Waking(store, keys, logs, clock, self._stop, parts)
        self._executor = Executor(open_changer, clock, self._wake, make_tables, open_points)
        self._inputs = FeedInputs(
            keys, self._stored, logs, self._executor, policy or RetryPolicy(), clock
        )

    def start(self) -> None:
        """Begin to tick."""
        self._waking.start()
        self._part.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End all threads; what has been written stays."""
        self._stop.set()
        self._executor.stop()
        self._waking.close(timeout_s)
        self._part.join(timeout_s)

    def let_go(self) -> None:
        """Returns once no turn is under way that began when more was ours than now."""
        with self._turning:
            self._waking.wake()

    @property
    def over(self) -> bool:
        """Whether it has ticked, and does no more."""
        return self._part.over

    def _wake(self, feed: str) -> None:
        self._waking.wake(Concerned(feeds=frozenset({feed})))

    def _look_on(self) -> bool:
        concerned = self._waking.wait(self._timeout_s)
        if self._stop.is_set():
            return False
        began = self._clock.monotonic()
        # What fails below is tried again at once, behind the pause of a part that has failed.
        self._timeout_s = 0.0
        try:
            with self._turning:
                self._timeout_s = self.turn(concerned)
        except OwnershipLost as e:
            _log.warning("%s", e)
            return False
        except Exception:
            self._waking.wake()
            raise
        # Under load it takes half of the time, what it directs the other half.
        took_s = self._clock.monotonic() - began
        self._stop.wait(min(_PAUSE_MAX_S, took_s))
        if not concerned.urgent:
            self._waking.rest(min(_PAUSE_MAX_S, _PROGRESS_PAUSES * took_s))
        return True

    def turn(self, concerned: Concerned = EVERY) -> float:
        """Tick the changefeeds that are concerned, due, or have a new guard.

        Returns the seconds until it must look again.
        """
        keys = self._keys
        held = self._guards.now()
        self._stored.take(self._store.range(keys.prefix)[1])
        found = self._stored.entries
        captures = sorted(last(e.key) for e in self._store.range(keys.capture_prefix)[1])
        if captures != self._captures:
            self._captures, concerned = captures, EVERY
        named = concerned.feeds | concerned.progress
        gone = any(keys.feed_info(name) not in found for name in named)
        # Who has just become the owner does not know what has gone before.
        anew, self._owner = held.owner != self._owner, held.owner
        any_left = concerned.every or gone or anew or self._stored.any_decision
        if held.owner is not None and any_left:
            self._collect(captures, held.owner)
        alive = len(captures)
        if self._only:
            captures = [c for c in captures if c == self._only]
        self._progress = []
        self._inputs.begin_turn()
        before, self._held = self._held, self._ours(held)
        known = set(self._held)
        infos = [found[keys.feed_info(name)] for name in self._held]
        self._feeds = {n: f for n, f in self._feeds.items() if self._held.get(n) == f.held}
        if before != self._held:
            same = before.items() & self._held.items()
            self._due = {name: self._due[name] for name, _ in same if name in self._due}
        self._executor.keep(known)
        self._observe(known, alive)
        self._broken = {name: b for name, b in self._broken.items() if name in known}
        of = self._upstreams(infos)
        for entry in self._to_tick(infos, of, concerned):
            timeout_s = self._guarded(entry, captures)
            self._due[last(entry.key)] = self._clock.monotonic() + timeout_s
        self._write_progress()
        self._waking.follow_logs({name for name in of.values() if name})
        self._forget_in_time(infos)
        soonest = min(self._due.values(), default=self._clock.monotonic() + _IDLE_S)
        return max(0.0, soonest - self._clock.monotonic())

    def _upstreams(self, infos: list[StoredKey]) -> dict[str, str]:
        """By changefeed the upstream whose log it needs, empty if none."""
        of = {}
        for entry in infos:
            info = self._stored.info(last(entry.key))
            active = info is not None and info.state in ACTIVE
            of[last(entry.key)] = info.upstream if info is not None and active else ""
        return of

    def _to_tick(
        self, infos: list[StoredKey], upstreams: Mapping[str, str], concerned: Concerned
    ) -> list[StoredKey]:
        """Those concerned or due, and of those whose log has moved and no more whose turn it is."""
        now_s = self._clock.monotonic()
        wanted, moved = [], {}
        for entry in infos:
            name = last(entry.key)
            upstream = upstreams[name]
            if concerned.has(name, upstream) or self._due.get(name, 0.0) <= now_s:
                wanted.append(entry)
            elif upstream in concerned.moved:
                moved[name] = entry
        self._turns, now = self._turns.earned(now_s).spent(len(wanted)).take(list(moved))
        return wanted + [moved[name] for name in now]

    def _observe(self, known: set[str], alive: int) -> None:
        now_s = self._clock.monotonic()
        if self._observer is None:
            return
        if self._observed != (known, alive) or now_s - self._observed_s >= _KEEP_S:
            self._observer.keep_feeds(known, alive)
            self._observed, self._observed_s = (known, alive), now_s

    def _ours(self, held: HeldNow) -> dict[str, Held]:
        """The changefeeds that this capture decides about, each with what guards it."""
        ours: dict[str, Held] = {}
        prefix = self._keys.feed_info_prefix
        for key in self._stored.entries:
            if key.startswith(prefix):
                info = self._stored.info(last(key))
                guard = held.of(info.upstream if info is not None else "")
                if guard is not None:
                    ours[last(key)] = guard
        return ours

    def _guarded(self, entry: StoredKey, captures: list[str]) -> float:
        """Tick one changefeed; what goes wrong with it stays with it."""
        name = last(entry.key)
        before = self._broken.get(name)
        if before is not None and before.rests(entry.mod_revision, self._clock.monotonic()):
            return before.until - self._clock.monotonic()
        try:
            with about(changefeed=last(entry.key)):
                timeout_s = self._tick(entry, self._stored.message(entry, FeedInfo), captures)
        except (OwnershipLost, StoreFailed):
            raise
        except Exception as e:
            return self._break(entry, e)
        return timeout_s

    def _break(self, entry: StoredKey, error: Exception) -> float:
        """Note that a changefeed's turn has failed; the seconds until it is tried again."""
        name = last(entry.key)
        before = self._broken.get(name)
        now_s, now_ms = self._clock.monotonic(), self._clock.now_ms()
        broken = Broken.of(error, name, entry.mod_revision, before, now_s, now_ms)
        if before is None or before.error.message != broken.error.message:
            with about(changefeed=name):
                _log.error("changefeed %s: its turn has failed", name, exc_info=error)
        self._broken[name] = broken
        known = self._feeds.get(name)
        self._feeds[name] = OwnedFeed(self._held[name], capture=known.capture if known else "")
        if broken.final:
            self._fail(entry, broken.error)
        return broken.until - now_s

    def _write_progress(self) -> None:
        """Write the progress of many changefeeds in few transactions.

        Where one of them was changed meanwhile, each is written by itself.
        """
        progress, self._progress = self._progress, []
        for first in range(0, len(progress), _TOGETHER):
            some = progress[first : first + _TOGETHER]
            together = len(some) > 1 and self._written(*some)
            for ticked in some:
                try:
                    if together or self._written(ticked):
                        self._taken(ticked)
                    else:
                        self._due[ticked.info.id] = 0.0
                except (OwnershipLost, StoreFailed):
                    raise
                except Exception as e:
                    timeout_s = self._break(ticked.entry, e)
                    self._due[ticked.info.id] = self._clock.monotonic() + timeout_s

    def _fail(self, entry: StoredKey, error: ErrorInfo) -> None:
        """Show the error and let nobody deliver it; a value that cannot be read stays as it is."""
        name, ops = last(entry.key), list[Op]()
        for key, value in self._stored.entries.items():
            if "/task/assignment/" in key and last(key) == name:
                with suppress(StoredValueUnreadable):
                    assignment = self._stored.message(value, Assignment)
                    if assignment.run:
                        stopped = assignment.model_copy(update={"run": False})
                        ops.append(Put(key, stopped.model_dump_json().encode()))
        with suppress(StoredValueUnreadable):
            info = self._stored.message(entry, FeedInfo)
            if allowed(info.state, FeedEvent.FATAL_ERROR):
                state = transition(info.state, FeedEvent.FATAL_ERROR, name)
                after = info.model_copy(update={"state": state, "error": error})
                ops.append(Put(entry.key, after.model_dump_json().encode()))
        if ops:
            held = self._held[name]
            self._store.txn([held, Unchanged(entry.key, entry.mod_revision)], ops)

    def _forget_in_time(self, infos: list[StoredKey]) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._forgot_s >= _FORGET_S:
            self._forget(infos)
            self._forgot_s = now_s

    def _forget(self, infos: list[StoredKey]) -> None:
        """Let logs forget schema changes that every changefeed has behind it."""
        lowest: dict[str, Ts] = {}
        for entry in infos:
            try:
                info = self._stored.message(entry, FeedInfo)
                passed = self._stored.status(info).checkpoint_ts
            except StoredValueUnreadable:
                # What it asks for once it can be read is then read anew.
                continue
            passed = passed or info.start_ts
            lowest[info.upstream] = min(passed, lowest.get(info.upstream, passed))
        for upstream in lowest.keys() & self._waking.in_use:
            with suppress(TidegateError):
                self._logs(upstream).forget_below(lowest[upstream])

    def _tick(self, entry: StoredKey, info: FeedInfo, captures: list[str]) -> float:
        feed = self._feeds.setdefault(info.id, OwnedFeed(self._held[info.id]))
        if feed.capture not in captures:
            if not captures:
                return 1.0
            # Whoever ran it before is gone or unknown: start anew there, under a new epoch.
            feed.capture = self._place(captures)
            feed.tick = FeedTick(retry=feed.tick.retry)
        seen = self._inputs.look(entry, info, feed)
        tick, effects = step(feed.tick, seen, self._clock.now_ms())
        ops = effect_ops(self._keys, self._stored, entry, info, feed, effects)
        ticked = _Ticked(entry, info, feed, seen, tick, effects, ops)
        if ticked.progress_only:
            self._progress.append(ticked)
        elif self._written(ticked):
            self._taken(ticked)
        else:
            return 0.0
        after = effects.info or info
        if after.state is FeedState.PENDING:
            return max(0.0, (tick.retry.next_ms - self._clock.now_ms()) / 1000)
        waiting = seen.recorded is None and after.state in ACTIVE
        if effects.info is not None or (tick.scanned_ts < seen.resolved_ts and not waiting):
            return 0.0
        now_ms = self._clock.now_ms()
        due_ms = [next_retry_ms(tick.changes), tick.point.due_ms(now_ms)]
        if any(due_ms):
            return max(0.0, (min(ms for ms in due_ms if ms) - now_ms) / 1000)
        return _UNDECIDED_S if undecided(tick.changes) else _IDLE_S

    def _taken(self, ticked: _Ticked) -> None:
        """What a tick wanted is written: now it counts."""
        info, effects, seen = ticked.info, ticked.effects, ticked.seen
        ticked.feed.tick = ticked.tick
        self._broken.pop(info.id, None)
        if self._observer:
            ddls, status = effects.ddls or seen.shown, effects.status or seen.status
            reads = read_now(status, seen.orders, effects.copies)
            self._observer.observe_feed(effects.info or info, status, ddls, reads)
        self._carry_out(info, ticked.feed, seen, effects)

    def _carry_out(
        self, info: FeedInfo, feed: OwnedFeed, seen: FeedInput, effects: Effects
    ) -> None:
        """What is written down is done now."""
        self._executor.taken(info.id, seen.outcomes)
        for order in effects.orders:
            self._executor.submit(info.id, info.epoch, order)
        if effects.sync is not None:
            self._sync(info, effects.sync)
        status = effects.status or seen.status
        if seen.recorded and status.checkpoint_ts > feed.forgotten_ts:
            passed = any(feed.forgotten_ts < ts <= status.checkpoint_ts for ts in seen.recorded)
            if not passed or self._made_durable(info.id, status):
                if passed:
                    self._executor.forget_below(info.id, status.checkpoint_ts)
                feed.forgotten_ts = status.checkpoint_ts

    def _sync(self, info: FeedInfo, turn: SyncTurn) -> None:
        if turn.order:
            self._executor.submit_point(info, turn.point.ts)
        if turn.left_out:
            _log.warning(
                "changefeed %s: sync point at ts %d left out: %s",
                info.id, turn.left_out, turn.why,
            )  # fmt: skip
            measures.SYNC_POINTS.labels(info.id, "left_out").inc()

    def _made_durable(self, feed: str, status: FeedStatus) -> bool:
        """Whether the store has this progress for good: progress alone goes with the power."""
        put = Put(self._keys.feed_status(feed), status.model_dump_json().encode())
        return self._store.txn([self._held[feed]], [put])

    def _place(self, captures: list[str]) -> str:
        load = dict.fromkeys(captures, 0)
        for feed in self._feeds.values():
            if feed.capture in load:
                load[feed.capture] += 1
        return min(captures, key=lambda c: (load[c], c))

    def _written(self, *ticks: _Ticked) -> bool:
        """Write what these ticks want, all or nothing; whether nobody else was faster."""
        ops = [op for t in ticks for op in t.ops]
        written = not ops
        if ops:
            compares: list[Compare] = list(dict.fromkeys(t.feed.held for t in ticks))
            compares += (Unchanged(t.entry.key, t.entry.mod_revision) for t in ticks)
            # A round of a shard group is known to no ledger, only its leader is.
            decided = any(t.effects.info is not None or t.begins_rounds for t in ticks)
            written = self._store.txn(compares, ops, durable=decided)
        for t in ticks:
            if t.effects.ddls is not None and t.effects.ddls != t.feed.shown:
                t.feed.shown = t.effects.ddls if written else None
            if written and t.effects.info is not None:
                after = t.effects.info
                what = f", {after.error.code}" if after.error else ""
                _log.info(
                    "changefeed %s: %s -> %s, epoch %d%s",
                    t.info.id, t.info.state, after.state, after.epoch, what,
                )  # fmt: skip
        return written

    def _collect(self, captures: list[str], owner: Held) -> None:
        def passed(feed: str) -> Ts:
            status = self._stored.derived(self._keys.feed_status(feed), FeedStatus)
            return status.checkpoint_ts if status else 0

        found = self._stored.entries
        gone = list(leftovers(found, self._keys, captures, passed))
        for first in range(0, len(gone), _TOGETHER):
            some = gone[first : first + _TOGETHER]
            # Whoever has its upstream may have written it anew.
            same = [Unchanged(key, found[key].mod_revision) for key in some]
            self._store.txn([owner, *same], [Delete(key) for key in some], durable=False)
