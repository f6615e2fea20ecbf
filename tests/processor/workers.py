"""Workers of a capture that deliver nothing, for those that hand windows to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc.base.errors import DefiniteError, TransientError
from processor.chunk_reading import ChunkRead, ChunkTask
from processor.jobs import ALONE, Captures
from processor.task_messages import Ack, Descriptor


@dataclass
class Workers:
    """A capture's workers: each answer has as many rows as its destination's partition."""

    capture: str
    tasks: int
    given: list[list[Descriptor]] = field(default_factory=list)
    chunks: list[ChunkTask] = field(default_factory=list)
    tended: list[set[str]] = field(default_factory=list)
    does: Callable[[], None] = lambda: None
    error: TransientError | DefiniteError | None = None

    @property
    def parallelism(self) -> int:
        return self.tasks

    @property
    def captures(self) -> Captures:
        return ALONE

    def run(
        self,
        descriptors: Sequence[Descriptor],
        description: str,
        timeout_s: float,
        shared: str = "",
    ) -> list[Ack]:
        self.given.append(list(descriptors))
        self.does()
        error = self.error.to_dict() if self.error else None
        return [Ack(d.destinations, rows=d.destinations[0][1], error=error) for d in descriptors]

    def read(
        self, tasks: Sequence[ChunkTask], description: str, timeout_s: float
    ) -> list[ChunkRead]:
        self.chunks += tasks
        return [ChunkRead(task.path) for task in tasks]

    def tend(self, feeds: Any) -> None:
        self.tended.append(set(feeds))


@dataclass
class StandInJvm:
    """What stands for Spark's JVM: what it is, and how often it was begun."""

    up: bool = True
    broken: bool = False
    begun: int = 0

    def begin(self) -> None:
        self.begun += 1
