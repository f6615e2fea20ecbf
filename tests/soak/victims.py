"""What is killed, when, and how it comes back: chosen by one seeded generator, aimed by the log.

Nearly half of all kills are aimed at the recovery from the kill before: the capture's log says when
it takes over, fences or plans. The others fall at random moments. What each has interrupted is read
from the log as well, and counted.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

from tests.e2e.capture_process import CaptureProcess
from tests.servers import Broker, Database
from tests.soak.phases import RECOVERY, PhaseLog
from tests.waiting import until

WORKER, CAPTURE, JVM, DAEMON = "Spark Python worker", "capture", "Spark's JVM", "Spark's daemon"
BROKER, TARGET, UPSTREAM = "broker", "target server", "upstream"
# How often each falls in a round; a round has each at least once.
_WEIGHTS = {WORKER: 5, CAPTURE: 3, BROKER: 2, TARGET: 2, UPSTREAM: 2, JVM: 1, DAEMON: 1}
# Of a round so many are aimed; the first never is, as there is nothing to recover from.
_AIMED = 0.45
# Of those that are not aimed, one in so many does not wait until delivery goes on either.
_HASTY = 4
_LONGEST_DELAY_S = 2.5
# A stuck changefeed must fail the run, with time for the slowest recovery that is still right.
_STUCK_S = 180.0
# A dead worker is noticed at once; a dead capture starts Spark before it recovers.
_SOON_S, _START_S = 4.0, 90.0
_PROVOKED = 3


@dataclass
class Tally:
    """Kills of one kind: how many, and the seconds until rows written after them came."""

    kills: int = 0
    recoveries: list[float] = field(default_factory=list)
    phases: Counter[str] = field(default_factory=Counter)

    def row(self, name: str) -> str:
        """One line of the table."""
        times = self.recoveries
        shown = (
            f"{statistics.median(times):8.1f} {max(times):8.1f}" if times else f"{'-':>8} {'-':>8}"
        )
        fell = ", ".join(f"{phase} {count}" for phase, count in self.phases.most_common())
        return f"{name:20} {self.kills:6} {shown}  {fell}"


@dataclass(frozen=True)
class Strike:
    """A kill to come: of what, and whether in the middle of which phase."""

    kind: str
    aim: str | None = None


class Deck:
    """Strikes without end: each round has every kind, and its share of aimed ones."""

    def __init__(self, kinds: tuple[str, ...], chosen: random.Random) -> None:
        self._kinds = kinds
        self._random = chosen
        self._left: list[Strike] = []
        self._round = 0

    def peek(self) -> Strike:
        """The next strike, which stays."""
        if not self._left:
            self._left = self._deal()
        return self._left[-1]

    def postpone(self) -> None:
        """There is nothing of the next strike's kind just now: others come first."""
        self._left.insert(0, self._left.pop())

    def take(self) -> None:
        """The next strike is done."""
        self._left.pop()

    def _deal(self) -> list[Strike]:
        self._round += 1
        # The first round is short: a run of a few minutes has each kind too.
        kinds = [k for k in self._kinds for _ in range(_WEIGHTS[k] if self._round > 1 else 1)]
        self._random.shuffle(kinds)
        count = max(1, round(_AIMED * len(kinds)))
        aimed = set(self._random.sample(range(1, len(kinds)), count))
        first = self._random.randrange(len(RECOVERY))
        aims = [RECOVERY[(first + i) % len(RECOVERY)] for i in range(count)]
        strikes = [Strike(k, aims.pop() if i in aimed else None) for i, k in enumerate(kinds)]
        return strikes[::-1]

    def fewest(self, kills: int) -> int:
        """How often each kind has been at least, after so many kills."""
        whole = sum(_WEIGHTS[k] for k in self._kinds)
        if kills < len(self._kinds):
            return 0
        return 1 + (kills - len(self._kinds)) // whole


class Killer:
    """Kills by the seed's choice: Spark's processes, the capture, and the servers around it.

    ``around`` are servers by BROKER, TARGET or UPSTREAM. ``newest`` is the Unix time at which the
    newest row was written that a consumer has seen. Each kill is told to ``say``.
    """

    def __init__(
        self,
        capture: CaptureProcess,
        around: dict[str, Broker | Database],
        newest: Callable[[], float],
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        kinds = (WORKER, CAPTURE, JVM, DAEMON, *around)
        self.tallies = {name: Tally() for name in kinds}
        self.phases = PhaseLog(capture.log)
        self._capture = capture
        self._around = around
        self._newest = newest
        self._say = say
        self._began = time.monotonic()
        self._random = random.Random(seed)
        self._deck = Deck(kinds, self._random)
        self._returning: threading.Thread | None = None
        self._failed: list[BaseException] = []
        self._mark = 0
        self._last = ""
        # Kills that were meant; an aimed one may need others to bring a recovery about.
        self.strikes = 0

    @property
    def kills(self) -> int:
        """All kills so far."""
        return sum(t.kills for t in self.tallies.values())

    @property
    def aims(self) -> bool:
        """Whether the next strike is aimed at the recovery from the last."""
        return self._deck.peek().aim is not None

    @property
    def recovering(self) -> int:
        """Kills that fell into taking over, fencing or planning."""
        return sum(t.phases[phase] for t in self.tallies.values() for phase in RECOVERY)

    def lacking(self) -> list[str]:
        """Kinds that were killed too rarely, and too few kills in a recovery, for a proof."""
        kills = self.kills
        fewest = self._deck.fewest(self.strikes)
        found = [
            f"{name} was killed {tally.kills} times of {kills}, not {fewest}"
            for name, tally in self.tallies.items()
            if tally.kills < fewest
        ]
        # One of five; of a few kills one, which chance may miss otherwise.
        if self.recovering < (kills // 5 if kills >= 20 else min(1, kills // 6)):
            found.append(f"only {self.recovering} of {kills} kills fell into a recovery")
        return found

    def strike(self) -> None:
        """Kill one process, aimed or at a random moment; none if there is none of its kind."""
        next_one = self._deck.peek()
        if next_one.aim is not None:
            self._aim(next_one.aim)
        else:
            hasty = self._random.randrange(_HASTY) == 0
            delay = self._random.uniform(0.0, _LONGEST_DELAY_S)
            if not hasty:
                self.await_delivery()
            time.sleep(delay)
        interrupted = self._kill(next_one.kind)
        if not interrupted:
            self._deck.postpone()
            return
        self._deck.take()
        self.strikes += 1
        # A recovery that the next strike is aimed at must not be over before.
        if self._deck.peek().aim is None:
            began = time.monotonic()
            self.await_delivery()
            self.tallies[next_one.kind].recoveries.append(time.monotonic() - began)

    def await_delivery(self) -> None:
        """Wait until the consumer sees a row written after this call; raise if it never does."""
        self._join()
        now = time.time()
        until(lambda: self._newest() > now, "a row written after the kill", _STUCK_S)

    def settle(self) -> None:
        """Wait until what was killed last is back; a capture, until it answers."""
        self._join()
        self._capture.await_ready()

    def _aim(self, phase: str) -> None:
        """Wait until a recovery is in ``phase``; bring one about if the last kill caused none."""
        for _ in range(_PROVOKED):
            patience = _SOON_S if self._last in (WORKER, DAEMON, UPSTREAM) else _START_S
            if self.phases.await_entered((phase,), self._mark, patience):
                return
            self.await_delivery()
            self._kill(WORKER)

    def _kill(self, kind: str) -> str:
        """Kill one of a kind, and have it come back; what that interrupted, or nothing."""
        if kind in (WORKER, JVM, DAEMON):
            victims = self._of_spark(kind)
            if not victims:
                return ""
            victim = victims[self._random.randrange(len(victims))]
            interrupted = self.phases.now()
            try:
                victim.kill()
            except psutil.NoSuchProcess:
                return ""
        elif kind == CAPTURE:
            self._join()
            self._capture.kill()
            # It is dead: the last line of its log is what it was doing.
            interrupted = self.phases.now()
            self._return(lambda: self._capture.start(ready=False))
        else:
            self._join()
            interrupted = self.phases.now()
            self._around[kind].kill()
            self._return(self._around[kind].start)
        self._mark, self._last = len(self.phases.entered), kind
        tally = self.tallies[kind]
        tally.kills += 1
        tally.phases[interrupted] += 1
        took = time.monotonic() - self._began
        self._say(f"{took:7.1f} s  kill -9 {self.kills:4}: {kind}, while {interrupted}")
        return interrupted

    def _of_spark(self, kind: str) -> list[psutil.Process]:
        """Spark's living processes of a kind; none right after the capture was killed."""
        if kind == WORKER:
            return self._capture.workers()
        if kind == JVM:
            return [p for p in self._capture.family() if _name(p) == "java"]
        return self._capture.daemons()

    def _return(self, again: Callable[[], object]) -> None:
        self._returning = threading.Thread(target=self._guarded, args=(again,), daemon=True)
        self._returning.start()

    def _join(self) -> None:
        if self._returning is not None:
            self._returning.join()
        if self._failed:
            raise self._failed[0]

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            self._failed.append(error)


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""
