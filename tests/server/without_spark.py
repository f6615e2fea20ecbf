"""``cdc server`` whose windows run in the capture itself; Spark "is started" once a file is there.

For what is about the capture's own process: Spark takes seconds to start, and these do not count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdc.server import capture
from processor.settings import ProcessorSettings
from processor.spark import context
from tests.processor.in_process import InProcessJobs

STARTED = "TIDEGATE_TEST_SPARK_STARTED"


class Jobs(InProcessJobs):
    """In the place of ``SparkRunner``."""

    up, broken = True, False

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def start(self) -> None:
        """Wait for the file."""
        while not Path(os.environ[STARTED]).exists():
            time.sleep(0.02)

    def begin(self) -> None:
        """Nothing is to be begun."""

    def stop(self) -> None:
        """End all deliverers."""
        self.close()


class NoStart:
    """In the place of ``ContextStart``: no JVM is begun, and no daemon forked for it."""

    def __init__(self, *_: Any) -> None:
        pass

    @contextmanager
    def standing(self) -> Iterator[bool]:
        """Nothing is to be forked."""
        yield False

    def result(self) -> None:
        """No context."""


if __name__ == "__main__":
    capture.SparkRunner = Jobs  # type: ignore[assignment,misc]
    context.ContextStart = NoStart  # type: ignore[assignment,misc]
    # There are no workers that could deliver meanwhile.
    ProcessorSettings.spark_waits = False  # type: ignore[assignment,method-assign]

    from cdc.cli.main import main

    main()
