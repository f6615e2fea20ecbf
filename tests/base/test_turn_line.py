"""Threads in line: few work at once, each has its turn, and nobody is kept out by who hangs."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from functools import partial

from cdc.base.turn_line import TurnLine
from tests import threads
from tests.waiting import until

_FOREVER_S = 1e6


class _Counts:
    """How many are inside, and were at most."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.now = self.most = self.turns = 0

    def add(self, count: int) -> None:
        with self._guard:
            self.now += count
            self.most = max(self.most, self.now)
            self.turns += count > 0


def test_no_more_work_at_once_and_each_has_its_turns() -> None:
    line, counts = TurnLine(3, _FOREVER_S), _Counts()

    def work() -> None:
        for _ in range(20):
            with line.inside():
                counts.add(1)
                time.sleep(0.0002)
                counts.add(-1)
                with line.outside():
                    time.sleep(0.0002)
                counts.add(1)
                counts.add(-1)

    with threads.running([work] * 40, threading.Event()):
        until(lambda: counts.turns == 40 * 20 * 2, "all have had all their turns")
    assert counts.now == 0
    assert counts.most == 3


def test_who_waits_longest_is_next() -> None:
    line, order = TurnLine(1, _FOREVER_S), []

    def work(number: int) -> None:
        with line.inside():
            order.append(number)

    with ExitStack() as stack, line.inside():
        for number in range(5):
            going = threads.running([partial(work, number)], threading.Event())
            stack.enter_context(going)
            until(lambda n=number: len(line._line) == n + 1, "it is in line")
        with line.outside():
            until(lambda: len(order) == 5, "all have had their turn")
    assert order == list(range(5))


def test_an_error_gives_the_place_back() -> None:
    line = TurnLine(1, _FOREVER_S)
    for _ in range(3):
        try:
            with line.inside(), line.outside():
                raise ValueError
        except ValueError:
            pass
    with line.inside():
        assert line._room == 0
    assert line._room == 1


def test_who_hangs_inside_keeps_nobody_out_for_long() -> None:
    """And is one of those inside again once it has gone on."""
    line, hangs, came = TurnLine(1, 0.05), threading.Event(), []

    def hang() -> None:
        with line.inside():
            came.append("hangs")
            hangs.wait()

    with threads.running([hang], hangs):
        until(lambda: came, "it is inside")
        for _ in range(3):
            with line.inside():
                came.append("beside")
    assert came == ["hangs", *["beside"] * 3]
    assert line._room == 1
