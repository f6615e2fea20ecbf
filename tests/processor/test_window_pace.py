"""Behind small windows that follow one another there is a rest, behind others none."""

from __future__ import annotations

import pytest

from processor.window_pace import WindowPace


def test_what_comes_alone_is_followed_by_no_rest() -> None:
    pace = WindowPace()
    for began in (100.0, 101.0, 102.0):
        assert pace.rest_s(began, began + 0.02, 100) == 0


@pytest.mark.parametrize(
    ("took_s", "size", "rest"),
    [
        (0.02, 100, 0.02),
        (0.02, (64 << 10) - 1, 0.02),
        (0.02, 64 << 10, 0.0),
        # A sink that is slow holds nobody up for longer than anybody notices.
        (3.0, 100, 0.04),
    ],
)
def test_small_windows_take_half_of_the_time(took_s: float, size: int, rest: float) -> None:
    pace = WindowPace()
    pace.rest_s(100.0, 100.5, 100)
    assert pace.rest_s(100.55, 100.55 + took_s, size) == pytest.approx(rest)
