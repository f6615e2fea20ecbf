"""Where a destination stands behind a window: what its ledger has is never taken back."""

from __future__ import annotations

import pytest

from cdc.base.position import Position, Stand
from processor.delivery import _reached
from processor.task_messages import Descriptor

P = Position
LO, HI = P(20), P(30)


@pytest.mark.parametrize(
    ("before", "held", "stand"),
    [
        (None, {}, Stand(30)),
        (None, {"a.t": P(19)}, Stand(30, held={"a.t": P(19)})),
        # It has more of the table than the others: a window failed for the table's rows.
        (Stand(25), {"a.t": P(19)}, Stand(30, held={"a.t": P(25)})),
        # A smaller window than the one that it has committed.
        (Stand(40), {}, Stand(40)),
        (Stand(40, 3), {"a.t": P(25)}, Stand(40, 3)),
        # A table catches up in it, but not to where the destination stands.
        (Stand(40, held={"a.t": P(19)}), {"a.t": P(25)}, Stand(40, held={"a.t": P(25)})),
        (Stand(40, held={"a.t": P(19)}), {}, Stand(40, held={"a.t": P(30)})),
        (Stand(30, held={"a.t": P(19)}), {}, Stand(30)),
    ],
)
def test_what_a_destination_has_is_never_taken_back(
    before: Stand | None, held: dict[str, P], stand: Stand
) -> None:
    window = Descriptor(None, LO, HI, (("t", 0),), held=held)  # type: ignore[arg-type]
    found = _reached(before, window)
    assert (found, dict(found.held)) == (stand, dict(stand.held))
