"""What stays of a log."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.base.ts import Ts


@dataclass(frozen=True, slots=True)
class Needed:
    """What changefeeds need of a log: all above ``checkpoint_ts``; ``starts``: where they began.

    ``anchor_ts``: of a node, at or below which an anchor must stay, as one of the log of all nodes
    needs it; None: that is ``checkpoint_ts``.
    """

    checkpoint_ts: Ts
    starts: tuple[Ts, ...]
    anchor_ts: Ts | None = None

    @property
    def anchored_ts(self) -> Ts:
        """At or below which an anchor must stay."""
        return self.checkpoint_ts if self.anchor_ts is None else self.anchor_ts
