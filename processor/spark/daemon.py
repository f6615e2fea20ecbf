"""The Python daemon that Spark forks its workers from, with our kernels loaded before the fork.

Workers then start in milliseconds and share the pages of compiled code and tables. Nothing that
is imported here may start a thread (pyspark.daemon says why). Under a local master it is itself a
fork of the capture (:mod:`processor.spark.forked_daemon`).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from processor import process_names
from processor.spark import forked_daemon


def load(between: Callable[[], None] | None = None) -> None:
    """Load all that workers need; what is loaded is no garbage, and is not looked at as such.

    ``between`` is called now and then, to fork workers that load the rest by themselves.
    """
    # To look for some all the time is a sixth of it.
    gc.disable()
    import processor.spark.task

    processor.spark.task.preload(between)
    # Only Spark's own workers need it.
    import pyspark.daemon  # noqa: F401

    # Workers share its pages as long as nobody looks for garbage there.
    gc.freeze()
    gc.enable()


def serve() -> None:
    """Fork workers until Spark closes standard input; ends by SystemExit."""
    import pyspark.daemon

    # Its socket takes code to run, and a cluster's worker may have been started with any umask.
    os.umask(0o077)
    process_names.take(process_names.DAEMON)
    forked = pyspark.daemon.worker

    def worker(*where: Any) -> Any:
        """Spark's worker; when the JVM goes first, nobody hears its last words: no news."""
        try:
            return forked(*where)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)

    # Spark has no other way to be told; a fork calls it by this name.
    pyspark.daemon.worker = worker
    os.register_at_fork(after_in_child=lambda: process_names.take(process_names.WORKER))
    with suppress(BrokenPipeError):
        pyspark.daemon.manager()


def main() -> None:
    """Load, then serve forks until Spark closes stdin."""
    load()
    serve()


if __name__ == "__main__":
    where = os.environ.get(forked_daemon.VARIABLE)
    ended = forked_daemon.hand_over(Path(where)) if where else None
    if ended is None:
        main()
    sys.exit(ended)
