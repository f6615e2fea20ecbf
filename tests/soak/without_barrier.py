"""``cdc`` with one thing taken away: no table waits at its schema change.

The negative control of the soak of schema changes. The product has no such switch, so it is
patched here, in a process of the test's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from cdc.cli.main import main
from owner import tick
from owner.barrier import Pending


def _none(pending: Iterable[Pending]) -> dict[str, int]:
    return {}


tick.table_barriers = _none

if __name__ == "__main__":
    main()
