"""What can be chosen on the command line."""

from __future__ import annotations

from dataclasses import dataclass


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
