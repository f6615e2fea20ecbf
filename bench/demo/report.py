"""What the demo prints: progress, messages, figures, verdicts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from bench.fold import Fold, Verdict
from bench.target import Watcher
from bench.workload import Committed, Workload

# The first seconds belong to the start: cold caches on every side.
_SKIP_S = 3.0


class Timed(Protocol):
    """Whoever looks at one end: when each row came, and its age at that moment, in seconds."""

    @property
    def times(self) -> ArrayLike:
        """Unix times."""

    @property
    def lags(self) -> ArrayLike:
        """Seconds since the client sent the row's statement."""


class Report:
    """Lines with the time since the start; moments of the run in Unix time."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.began_s = time.time()
        self.steady_end = 0.0
        self.killed = 0.0
        self.load_ended = 0.0
        self.topic_done = 0.0
        self.target_done = 0.0
        self.loaded_s = 0.0

    def say(self, text: str) -> None:
        """Print, each line with the time in front."""
        for line in text.splitlines():
            print(f"[{time.monotonic() - self._began:6.1f} s] {line}", flush=True)

    def progress(self, load: Workload, fold: Fold, watcher: Watcher, until: float) -> None:
        """A line every 5 s until the monotonic time ``until``."""
        while (left := until - time.monotonic()) > 0:
            load.stopping.wait(min(5.0, left))
            if load.stopping.is_set():
                return
            self.say(
                f"committed {load.committed.rows:9,} rows; topic {fold.messages:9,} messages, "
                f"newest {_age(fold)} old; target newest {_age(watcher)} old"
            )

    def messages(self, samples: Mapping[tuple[str, str], bytes]) -> None:
        """A few messages as they lie in the topic."""
        for wanted in (("order_lines", "INSERT"), ("customers", "UPDATE"), ("tags", "DELETE")):
            if wanted in samples:
                self.say(samples[wanted].decode())

    def ends(self, committed: Committed, fold: Fold, watcher: Watcher) -> None:
        """Rates and lags of both ends, measured by those who read there."""
        self.say(
            f"load {committed.rows / self.loaded_s:,.0f} rows/s for {self.loaded_s:.0f} s; "
            f"{fold.messages:,} messages read"
        )
        self._end("topic", fold, committed, self.topic_done)
        self._end("target", watcher, committed, self.target_done)

    def verdict(self, title: str, verdict: Verdict) -> None:
        """One judgement."""
        self.say(f"{title}:")
        for line in verdict.lines():
            self.say(line)

    def block(self, title: str, lines: Iterable[str]) -> None:
        """Lines below a title, if there is one."""
        if title:
            self.say(f"{title}:")
        for line in lines:
            self.say(line)

    def _end(self, name: str, end: Timed, committed: Committed, done: float) -> None:
        behind = max(0.0, done - self.load_ended)
        line = f"{name:6} {committed.rows / (self.loaded_s + behind):,.0f} rows/s"
        times, lags = np.asarray(end.times), np.asarray(end.lags)
        steady = lags[(times < self.steady_end) & (times > times[:1].sum() + _SKIP_S)]
        if len(steady):
            p50, p99 = np.percentile(steady, [50, 99])
            line += f"; lag, commit to reader, before the kill: p50 {p50:.3f} s, p99 {p99:.3f} s"
        after = times[times - lags > self.killed]
        if len(after):
            line += (
                f"; first row committed after kill -9 there {after.min() - self.killed:.1f} s after"
                f" it, longest lag {lags.max():.1f} s"
            )
        self.say(line)


def _age(end: Fold | Watcher) -> str:
    """How old the newest row is that has been seen."""
    return f"{time.time() - end.times[-1] + end.lags[-1]:.2f} s" if end.lags else "-"
