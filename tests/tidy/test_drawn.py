"""Of a long test's cases one is in each run, a few runs have all of them, and soaks the others."""

from __future__ import annotations

import pytest

from tests import seeds

CASES = [("mariadb-11.4", 1), ("mysql-8.0", 2), ("mysql-9.7", 3)]


def test_one_case_in_each_run_and_all_in_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    met = set()
    for seed in range(30):
        monkeypatch.setenv("SEED", str(seed))
        drawn = seeds.drawn(CASES, names=2)
        assert [case.values for case in drawn] == CASES
        (here,) = [case.values for case in drawn if not case.marks]
        assert all(mark.name == "soak" for case in drawn for mark in case.marks)
        assert seeds.drawn(CASES, names=2) == drawn, "all workers draw the same"
        met.add(here)
    assert met == set(CASES)


def test_a_case_may_be_one_value() -> None:
    assert [case.values for case in seeds.drawn(CASES)] == [(case,) for case in CASES]
