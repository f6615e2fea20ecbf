"""Workers that die in the midst of what they do, and clean nothing up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.processor.in_process import InProcessJobs, WorkerDied


class Dying:
    """A method in whose place, or behind which, the worker dies at every seventh time, so often."""

    def __init__(self, owner: type, name: str, *, before: bool, times: int = 6) -> None:
        self.owner, self.name, self.times, self.before = owner, name, times, before
        self.call: Callable[..., Any] = getattr(owner, name)
        self.count = self.deaths = 0

    def put(self, patch: pytest.MonkeyPatch) -> None:
        """Take the method's place."""
        patch.setattr(self.owner, self.name, lambda *args, **named: self._called(*args, **named))

    def _called(self, *args: Any, **named: Any) -> Any:
        self.count += 1
        dies = self.count % 7 == 0 and self.deaths < self.times
        self.deaths += dies
        if dies and self.before:
            raise WorkerDied
        result = self.call(*args, **named)
        if dies:
            raise WorkerDied
        return result


class Forgetful(InProcessJobs):
    """A worker that died is another one from then on, and has cleaned nothing up."""

    def run(self, *args: Any) -> Any:
        """One job."""
        try:
            return super().run(*args)
        except WorkerDied:
            for delivery in self._deliveries.values():
                if delivery._slot is not None:
                    # As the kernel does for a process that is no more.
                    delivery._slot.release()
            self._deliveries.clear()
            raise
