"""The base64 kernel against the standard library's."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from cdc.kernels.base64 import encode


@pytest.mark.parametrize("size", [*range(70), 1000, 4096, 65_537])
def test_every_length_at_any_place(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size + 9, np.uint8)
    out = np.full(2 * size + 32, 7, np.uint8)
    end = encode(data, 5, 5 + size, out, 3)
    wanted = base64.b64encode(data[5 : 5 + size].tobytes())
    assert out[3:end].tobytes() == wanted
    assert (out[:3] == 7).all()
    assert (out[end:] == 7).all()


@pytest.mark.parametrize(
    ("lo", "hi", "room", "at"), [(-1, 3, 9, 0), (3, 2, 9, 0), (0, 8, 99, 0), (0, 4, 7, 0)]
)
def test_what_does_not_fit_is_refused(lo: int, hi: int, room: int, at: int) -> None:
    assert encode(np.zeros(7, np.uint8), lo, hi, np.zeros(room, np.uint8), at) == -1
