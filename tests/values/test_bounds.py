"""Random bytes never make a kernel read or write outside of its arrays."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.values import hostile


def test_random_bytes_end_in_text_or_a_code() -> None:
    hostile.run(300)


@pytest.mark.slow
def test_the_same_with_bounds_checks() -> None:
    # Checked code has a cache of its own: the folder's name says whether it checks.
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1"}
    command = [sys.executable, "-m", "tests.values.hostile", "300"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
