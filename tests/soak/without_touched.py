"""``cdc`` with one thing taken away: rows that changed while they were read stay as they were read.

The negative control of the soak of row snapshots. The product has no such switch, so it is patched
here, in a process of the test's own.
"""

from __future__ import annotations

from typing import Any

from cdc.cli.main import main
from cdc.snapshot import settle
from cdc.snapshot.balance import Balance
from cdc.snapshot.touched import Touched


def _nothing(*_: Any) -> Touched:
    return Touched.none()


def _even(*_: Any) -> Balance:
    return Balance.none()


settle.touched = _nothing
settle.balance = _even

if __name__ == "__main__":
    main()
