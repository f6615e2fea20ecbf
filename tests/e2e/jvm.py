"""Programs of Java's that read what a changefeed has sent."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.servers import Unavailable, install

_OPENS = [f"--add-opens=java.base/{p}=ALL-UNNAMED" for p in ("java.lang", "java.util", "java.time")]


def jars(name: str) -> Path:
    """Their folder; the test is skipped where they cannot be fetched, but not in CI."""
    try:
        return install.fetch(name).base / "lib"
    except Unavailable as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


def command(of: str, *words: str) -> list[str]:
    """What runs a class, or a source file, with the jars of that name."""
    return java(jars(of), *words)


def java(folder: Path, *words: str) -> list[str]:
    """The same with the jars of a folder."""
    program = shutil.which("java")
    assert program is not None
    return [program, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *_OPENS,
            "-cp", f"{folder}/*", *words]  # fmt: skip
