"""``cdc`` whose wall clock a test can set: by as many milliseconds as the file in CLOCK says.

The monotonic clock goes on, as it does when a host's clock is set.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from cdc.base.clock import SystemClock
from cdc.cli.main import main

VARIABLE = "TIDEGATE_TEST_CLOCK"


def _now_ms(self: SystemClock) -> int:
    file = Path(os.environ[VARIABLE])
    ahead = int(file.read_text() or 0) if file.exists() else 0
    return time.time_ns() // 1_000_000 + ahead


if __name__ == "__main__":
    SystemClock.now_ms = _now_ms  # type: ignore[method-assign]
    main()
