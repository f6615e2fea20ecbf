"""What stays of a log."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.base.ts import Ts


@dataclass(frozen=True, slots=True)
class Needed:
    """What changefeeds need of a log: all above ``checkpoint_ts``; ``starts``: where they began."""

    checkpoint_ts: Ts
    starts: tuple[Ts, ...]
