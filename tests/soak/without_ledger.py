"""``cdc`` with one thing taken away: recovery does not look at what the ledger says is delivered.

The negative control of the soak: if this delivers exactly once, the soak shows nothing. The
product has no such switch, so it is patched here, in a process of the test's own. Whether a kill
falls between a commit and its acknowledgement is chance, so the acknowledgements of some windows
are lost as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cdc.cli.main import main
from processor.spark.session import SparkRunner
from processor.task_messages import Ack, Descriptor
from sink.contract import Recovered
from sink.kafka.driver import KafkaDriver

_recover = KafkaDriver.recover


def _blind(self: KafkaDriver, *where: Any, **how: Any) -> Recovered:
    return replace(_recover(self, *where, **how), positions={})


KafkaDriver.recover = _blind  # type: ignore[method-assign]

_LOST_EVERY = 10
_run = SparkRunner.run
_windows = itertools.count(1)


def _deaf(
    self: SparkRunner,
    descriptors: Sequence[Descriptor],
    description: str,
    timeout_s: float,
    shared: str,
) -> list[Ack]:
    acks = _run(self, descriptors, description, timeout_s, shared)
    if next(_windows) % _LOST_EVERY == 0:
        raise ConnectionError("the window is delivered, but its acknowledgements are lost")
    return acks


SparkRunner.run = _deaf  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
