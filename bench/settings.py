"""What can be chosen on the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Settings:
    """Settings of all items; 0 means an item's own default."""

    server: str = "mariadb-11.4"
    rows: int = 0
    runs: int = 3
    partitions: int = 1
    codec: str = "lz4"
    seconds: float = 0
    peers: bool = True

    @property
    def whole(self) -> bool:
        """Whether a run of these may be compared with others: nothing less than the defaults."""
        return replace(self, runs=Settings.runs) == Settings() and self.runs >= Settings.runs
