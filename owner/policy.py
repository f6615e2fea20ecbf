"""Which schema changes run by themselves, and which wait for an operator."""

from __future__ import annotations

from enum import StrEnum


class DdlPolicy(StrEnum):
    """``ddl-policy`` of a changefeed."""

    AUTO = "auto"
    HOLD_DESTRUCTIVE = "hold-destructive"
    HOLD_ALL = "hold-all"

    def holds(self, destructive: bool) -> bool:
        """Whether a change waits for ``cdc cli ddl approve``."""
        return self is DdlPolicy.HOLD_ALL or (self is DdlPolicy.HOLD_DESTRUCTIVE and destructive)
