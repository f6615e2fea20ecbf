"""The classes of Spark's JVM, parsed and verified once: half of what its start costs.

A start takes some 6,000 classes out of Spark's jars. Java keeps them as they are in memory in an
archive that it maps at the next start (class-data sharing, JEP 310 and 350). An archive is for one
JVM and one set of jars: its name has a digest of both, and a JVM that finds that it does not fit
starts without. :mod:`processor.spark.record_classes` makes it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

# The JVM would say on standard output, in many lines, what cannot be shared.
QUIET = "-Xlog:cds*=error"


def options() -> str:
    """JVM options that use the archive of this machine's JVM and jars; "" if there is none."""
    archive = path()
    if archive is None or not archive.is_file():
        return ""
    return f"{QUIET} {shlex.quote(f'-XX:SharedArchiveFile={archive}')}"


def path() -> Path | None:
    """Where the archive of this JVM and these jars is, made or not; None if either is missing."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home) / "bin/java" if home else "java")
    # The package is looked for, not loaded: a capture that starts has no use for it.
    package = find_spec("pyspark")
    if java is None or package is None or package.origin is None:
        return None
    jars = Path(os.environ.get("SPARK_HOME") or Path(package.origin).parent) / "jars"
    binary = Path(java).resolve()
    digest = blake2b(digest_size=8)
    for file in (binary, jars, *sorted(jars.glob("*.jar"))):
        stat = file.stat()
        digest.update(f"{file} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    # Beside the jars that it is of, so that it goes when they go.
    return Path(sys.prefix) / "var/tidegate" / f"classes-{digest.hexdigest()}.jsa"
