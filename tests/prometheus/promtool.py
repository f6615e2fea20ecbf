"""Prometheus's own tool, which knows what a rule and an expression mean."""

from __future__ import annotations

import functools
import subprocess

import pytest

from tests.servers import Unavailable, install

SERVER = "prometheus-2.53"


@functools.cache
def command(program: str = "promtool") -> tuple[str, ...]:
    """How a program of Prometheus's is run; skips the test where it cannot be had."""
    try:
        found = install.fetch(SERVER).program(program)
    except Unavailable as error:
        pytest.skip(str(error))
    assert found is not None
    return tuple(found)


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it."""
    return subprocess.run(
        [*command(), *arguments], capture_output=True, text=True, check=False, timeout=60
    )
