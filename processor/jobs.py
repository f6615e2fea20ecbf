"""What the processor asks of whoever runs its tasks; Spark is one, tests may be another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cdc.base.errors import TransientError
from processor.chunk_reading import ChunkRead, ChunkTask
from processor.task_messages import Ack, Descriptor


class JobTimedOut(TransientError):
    """A window's job did not end in time and was cancelled: a worker hangs, or its host does."""

    code = "TG:ErrJobTimedOut"


@dataclass(frozen=True, slots=True)
class Captures:
    """Captures that deliver a window together: ``rooms`` says how many tasks each runs at once.

    ``here`` is the one that plans it. None are known where no other one may be asked.
    """

    here: str = ""
    rooms: Mapping[str, int] = field(default_factory=dict)


ALONE = Captures()
"""Of a capture that asks no other one."""


class JobRunner(Protocol):
    """Runs the tasks of a window."""

    @property
    def parallelism(self) -> int:
        """Tasks that run at once."""

    @property
    def captures(self) -> Captures:
        """Whose workers a task may be given to by name."""

    def run(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float, shared: str
    ) -> list[Ack]:
        """One job with a task per descriptor; their acknowledgements in order.

        A single one may go with others that have the same ``shared``, unless that is empty.
        Raises if any task was lost, :class:`JobTimedOut` if it was cancelled behind ``timeout_s``:
        then nothing is known of its outcome but what the sink's ledger says.
        """

    def read(
        self, tasks: Sequence[ChunkTask], description: str, timeout_s: float
    ) -> list[ChunkRead]:
        """One job with a task per chunk of a table; what each has read, in order.

        Raises as :meth:`run` does. A task that is run again writes another file.
        """

    def tend(self, feeds: Collection[str]) -> None:
        """Keep idle workers alive, and let them give back what they have of other changefeeds.

        What has ended is not started for it. May raise what the runner raises.
        """


class OwnJobs:
    """A JobRunner as it is, for those that change a part of it."""

    def __init__(self, own: JobRunner) -> None:
        self._own = own

    @property
    def parallelism(self) -> int:
        """Tasks that run at once."""
        return self._own.parallelism

    @property
    def captures(self) -> Captures:
        """As of a JobRunner."""
        return self._own.captures

    def run(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float, shared: str
    ) -> list[Ack]:
        """As of a JobRunner."""
        return self._own.run(descriptors, description, timeout_s, shared)

    def read(
        self, tasks: Sequence[ChunkTask], description: str, timeout_s: float
    ) -> list[ChunkRead]:
        """As of a JobRunner, by our own workers: the upstream may know no other hosts."""
        return self._own.read(tasks, description, timeout_s)

    def tend(self, feeds: Collection[str]) -> None:
        """As of a JobRunner."""
        self._own.tend(feeds)
