"""One seed for each run of the tests: taken by ``SEED=`` or drawn anew, printed at the end.

A run explores what the last one did not, and a failure is run again by its seed. CI takes it from
the commit, so each change meets new cases and a commit has one verdict.
"""

from __future__ import annotations

import os
import secrets

_NAME = "SEED"


def draw() -> None:
    """Draw the run's seed unless it is given; processes that are started later inherit it."""
    if not os.environ.get(_NAME):
        os.environ[_NAME] = str(secrets.randbelow(1_000_000))


def seed() -> int:
    """Return the seed of this run."""
    draw()
    return int(os.environ[_NAME])
