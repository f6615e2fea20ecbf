"""What the processor asks of whoever runs its tasks; Spark is one, tests may be another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from processor.task_messages import Ack, Descriptor


class JobRunner(Protocol):
    """Runs the tasks of a window."""

    @property
    def parallelism(self) -> int:
        """Tasks that run at once."""

    def run(self, descriptors: Sequence[Descriptor], description: str) -> list[Ack]:
        """One job with a task per descriptor; their acknowledgements in order.

        Raises if any task was lost: then nothing is known of its outcome but what the sink's
        ledger says.
        """
