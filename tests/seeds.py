"""One seed for each run of the tests: taken by ``SEED=`` or drawn anew, printed at the end.

A run explores what the last one did not, and a failure is run again by its seed. CI takes it from
the commit, so each change meets new cases and a commit has one verdict.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

_NAME = "SEED"
Test = TypeVar("Test", bound=Callable[..., Any])


def draw() -> None:
    """Draw the run's seed unless it is given; processes that are started later inherit it."""
    if not os.environ.get(_NAME):
        os.environ[_NAME] = str(secrets.randbelow(1_000_000))


def seed() -> int:
    """Return the seed of this run."""
    draw()
    return int(os.environ[_NAME])


def drawn(cases: Sequence[Any], *, names: int = 1) -> list[Any]:
    """Return what ``parametrize`` takes for a long test: one of the cases in this run.

    The others are soaks: a few commits meet all of them, and ``make soak CONTROLS=1`` does. With
    several ``names`` a case is a tuple of that many values.
    """
    chosen = random.Random(f"{seed()} {cases!r}").randrange(len(cases))
    values = [case if names > 1 else (case,) for case in cases]
    return [
        pytest.param(*case, marks=[] if number == chosen else [pytest.mark.soak])
        for number, case in enumerate(values)
    ]


def one_run_in(runs: int) -> Callable[[Test], Test]:
    """Return a mark of long tests: each is in one of so many runs, and a soak in the others."""

    def mark(test: Test) -> Test:
        name = f"{test.__module__}.{test.__qualname__}"
        here = random.Random(f"{seed()} {name}").randrange(runs) == 0
        return pytest.mark.slow(test if here else pytest.mark.soak(test))

    return mark
