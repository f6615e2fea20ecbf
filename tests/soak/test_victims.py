"""The dice of the kills: every kind in each round, aimed often enough, and what a run must show."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from bench.fold import Verdict
from tests.soak.phases import RECOVERY, STARTING, PhaseLog
from tests.soak.plan import EXPECTED, Control, Fault, Kind, Plan, Result
from tests.soak.victims import BROKER, CAPTURE, DAEMON, JVM, UPSTREAM, WORKER, Deck

_KINDS = (WORKER, CAPTURE, JVM, DAEMON, BROKER, UPSTREAM)


@pytest.mark.parametrize("seed", range(20))
def test_each_round_has_every_kind_and_its_share_of_aimed_strikes(seed: int) -> None:
    deck = Deck(_KINDS, random.Random(seed))
    counts: Counter[str] = Counter()
    aimed = 0
    for kills in range(1, 101):
        strike = deck.peek()
        assert strike == deck.peek()
        counts[strike.kind] += 1
        aimed += strike.aim is not None
        deck.take()
        assert min(counts[k] for k in _KINDS) >= deck.fewest(kills)
    assert deck.fewest(len(_KINDS)) == 1
    assert deck.fewest(100) >= 7
    assert 35 <= aimed <= 55


def test_the_first_strike_is_not_aimed_as_nothing_recovers_yet() -> None:
    assert all(Deck(_KINDS, random.Random(seed)).peek().aim is None for seed in range(50))


def _line(text: str) -> str:
    return f"2026-11-22T14:43:00.000Z {text}\n"


def test_the_log_says_what_a_kill_has_interrupted(tmp_path: Path) -> None:
    log = tmp_path / "capture.log"
    phases = PhaseLog(log)
    assert phases.now() == STARTING
    text = _line("INFO capture: capture c1: starting, data in /d")
    text += _line("DEBUG phase: changefeed a: delivering")
    text += _line("DEBUG phase: changefeed b: taking over")
    log.write_text(text)
    assert phases.now() == "taking over"
    since = len(phases.entered)
    half = _line("DEBUG phase: changefeed b: fencing")
    with log.open("a") as file:
        file.write(half[:-9])
    assert phases.now() == "taking over"
    with log.open("a") as file:
        file.write(half[-9:])
    assert phases.await_entered(("fencing",), since, 1.0)
    assert not phases.await_entered(("fencing",), len(phases.entered), 0.01)
    with log.open("a") as file:
        file.write(_line("DEBUG phase: changefeed b: idle"))
    assert not phases.await_entered(("fencing",), since, 0.01)
    assert phases.now() == "delivering"
    with log.open("a") as file:
        file.write(_line("INFO capture: capture c2: starting, data in /d"))
    assert phases.now() == STARTING
    assert set(RECOVERY) == {"taking over", "fencing", "planning"}


def _result(*kinds: Kind) -> Result:
    verdict = Verdict([], Kind.LOST in kinds, Kind.DUPLICATED in kinds, 0, 0, [])
    faults = tuple(Fault(k, "") for k in kinds if k not in (Kind.LOST, Kind.DUPLICATED))
    return Result(verdict, 1, 0, True, (), faults)


@pytest.mark.parametrize("control", list(Control))
def test_a_control_passes_by_its_own_fault_alone(control: Control) -> None:
    plan = Plan(control=control)
    expected = EXPECTED[control]
    for kind in Kind:
        wanted = kind in expected.must and kind is not Kind.LATE
        assert _result(kind).passed(plan) == wanted, kind
    assert not _result().passed(plan)
    assert not _result(*expected.must, Kind.UNCOMMITTED).passed(plan)
    assert not _result(Kind.LATE).passed(plan)


def test_a_soak_passes_if_nothing_at_all_is_wrong() -> None:
    assert _result().passed(Plan())
    assert not any(_result(kind).passed(Plan()) for kind in Kind)
