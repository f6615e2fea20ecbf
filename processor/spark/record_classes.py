"""``python -m processor.spark.record_classes``: make Spark's class archive, or find it there."""

from __future__ import annotations

import shlex
import tempfile
import time
from pathlib import Path

from processor.spark import class_archive


def record(archive: Path) -> None:
    """Start Spark once, and keep its classes. Raises OSError and what Spark raises."""
    # They load kernels, which takes longer than to see that the archive is there.
    from processor.settings import ProcessorSettings
    from processor.spark.context import JVM
    from processor.spark.session import SparkRunner, end_jvm

    archive.parent.mkdir(parents=True, exist_ok=True)
    for older in archive.parent.glob("*.jsa"):
        older.unlink()
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        keep = shlex.quote(f"-XX:ArchiveClassesAtExit={made}")
        options = {"spark.driver.extraJavaOptions": f"{JVM} {class_archive.QUIET} {keep}"}
        runner = SparkRunner(ProcessorSettings(spark_conf=options), Path(folder) / "scratch")
        runner.start()
        runner.stop()
        end_jvm()
        made.replace(archive)


def main() -> None:
    """One line about it."""
    began = time.monotonic()
    archive = class_archive.path()
    if archive is None:
        print("Spark's classes: there is no java, so none are kept")
        return
    if not archive.is_file():
        record(archive)
    size = archive.stat().st_size / 1e6
    print(f"Spark's classes ready: {size:.0f} MB, {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
