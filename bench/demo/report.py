"""What the demo prints: progress, messages, figures."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from bench.fold import Fold
from bench.workload import Committed, Workload


class Report:
    """Lines with the time since the start; moments of the run in Unix time."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.steady_end = 0.0
        self.killed = 0.0
        self.caught_up = 0.0
        self.loaded_s = 0.0

    def say(self, text: str) -> None:
        """Print, each line with the time in front."""
        for line in text.splitlines():
            print(f"[{time.monotonic() - self._began:6.1f} s] {line}", flush=True)

    def progress(self, load: Workload, fold: Fold, until: float) -> None:
        """A line every 5 s until the monotonic time ``until``."""
        while (left := until - time.monotonic()) > 0:
            load.stopping.wait(min(5.0, left))
            if load.stopping.is_set():
                return
            lag = f"{fold.lags[-1]:.2f} s" if fold.lags else "-"
            committed = load.committed.rows
            self.say(f"committed {committed:9,} rows, read {fold.messages:9,} messages, lag {lag}")

    def messages(self, samples: Mapping[tuple[str, str], bytes]) -> None:
        """A few messages as they lie in the topic."""
        for wanted in (("order_lines", "INSERT"), ("customers", "UPDATE"), ("tags", "DELETE")):
            if wanted in samples:
                self.say(samples[wanted].decode())

    def figures(self, committed: Committed, fold: Fold) -> None:
        """Rates and lags, measured by the consumer."""
        times, lags = np.array(fold.times), np.array(fold.lags)
        self.say(
            f"load {committed.rows / self.loaded_s:,.0f} rows/s for {self.loaded_s:.0f} s; "
            f"{fold.messages:,} messages read"
        )
        # The first seconds belong to the start: cold caches on every side.
        steady = lags[(times < self.steady_end) & (times > times[:1].sum() + 3)]
        if len(steady):
            p50, p99 = np.percentile(steady, [50, 99])
            self.say(f"lag, commit to consumer, before the kill: p50 {p50:.3f} s, p99 {p99:.3f} s")
        after = times[times - lags > self.killed]
        if len(after):
            self.say(
                f"first row committed after kill -9 read {after.min() - self.killed:.1f} s after "
                f"it; longest lag {lags.max():.1f} s"
            )
