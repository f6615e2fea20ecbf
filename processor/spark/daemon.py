"""The Python daemon that Spark forks its workers from, with our kernels loaded before the fork.

Workers then start in milliseconds and share the pages of compiled code and tables. Nothing that
is imported here may start a thread (pyspark.daemon says why).
"""

from __future__ import annotations

from contextlib import suppress

from pyspark.daemon import manager


def main() -> None:
    """Load, then serve forks until Spark closes stdin."""
    import processor.spark.task

    processor.spark.task.preload()
    # When the JVM goes first, a worker's last words find nobody: no news for an operator.
    with suppress(BrokenPipeError):
        manager()


if __name__ == "__main__":
    main()
