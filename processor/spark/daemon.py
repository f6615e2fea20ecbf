"""The Python daemon that Spark forks its workers from, with our kernels loaded before the fork.

Workers then start in milliseconds and share the pages of compiled code and tables. Nothing that
is imported here may start a thread (pyspark.daemon says why).
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from typing import Any

import pyspark.daemon

_worker = pyspark.daemon.worker


def worker(*where: Any) -> Any:
    """Spark's worker; when the JVM goes first, its last words find nobody: no news for anyone."""
    try:
        return _worker(*where)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)


def main() -> None:
    """Load, then serve forks until Spark closes stdin."""
    # Its socket takes code to run, and a cluster's worker may have been started with any umask.
    os.umask(0o077)
    # Nothing that is loaded is garbage, and to look for some all the time is a sixth of it.
    gc.disable()
    import processor.spark.task

    processor.spark.task.preload()
    # Workers share its pages as long as nobody looks for garbage there.
    gc.freeze()
    gc.enable()
    # Spark has no other way to be told; a fork calls it by this name.
    pyspark.daemon.worker = worker
    with suppress(BrokenPipeError):
        pyspark.daemon.manager()


if __name__ == "__main__":
    main()
