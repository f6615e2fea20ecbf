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


def test_a_test_is_in_one_of_a_few_runs_and_a_soak_in_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    met: dict[str, list[str]] = {"a": [], "b": []}

    def drawn(name: str) -> str:
        def test() -> None: ...

        test.__qualname__ = name
        marks = {mark.name for mark in seeds.one_run_in(3)(test).pytestmark}  # type: ignore[attr-defined]
        assert "slow" in marks, "it is long, wherever it is"
        return "soak" if "soak" in marks else "slow"

    for seed in range(300):
        monkeypatch.setenv("SEED", str(seed))
        for test, kinds in met.items():
            kinds.append(drawn(test))
            assert drawn(test) == kinds[-1], "all workers draw the same"
    for marks in met.values():
        assert 70 < marks.count("slow") < 130
        assert marks.count("slow") + marks.count("soak") == 300
    assert met["a"] != met["b"]
