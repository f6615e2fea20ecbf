"""Settings of pulling."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class SourceSettings(BaseModel):
    """How a node is pulled.

    ``silence_s``: a server that sent not even a heartbeat for so long is taken for gone.
    ``standing_s``: every so many seconds the server is asked where it stands; while nothing comes,
    the resolved ts moves as often.
    ``damage_pulls``: bytes that make no sense are pulled so many times before they are taken for
    the server's own.
    ``blocks`` of ``block_bytes`` are read ahead at most. A group commit happens when the socket has
    nothing more, and under load after ``group_commit_ms`` or ``group_commit_bytes``.
    ``prepared_xa_s``: so long a new log waits until no XA transaction is prepared.
    ``prepared_shown_s``: one that is prepared for longer is shown, as the log is kept for it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    heartbeat_s: float = Field(default=1.0, gt=0, le=3600)
    standing_s: float = Field(default=1.0, gt=0, le=60)
    silence_s: float = Field(default=15.0, gt=0)
    damage_pulls: int = Field(default=3, ge=1, le=100)
    connect_timeout_s: float = Field(default=10.0, gt=0)
    server_net_timeout_s: int = Field(default=3600, ge=1)
    blocks: int = Field(default=4, ge=2, le=64)
    block_bytes: int = Field(default=4 << 20, ge=1 << 12)
    buffer_bytes: int = Field(default=8 << 20, ge=1 << 13)
    group_commit_ms: int = Field(default=25, ge=0, le=10_000)
    group_commit_bytes: int = Field(default=32 << 20, ge=1)
    prepared_xa_s: float = Field(default=5.0, ge=0)
    prepared_shown_s: float = Field(default=3600.0, ge=0)
    backoff_first_s: float = Field(default=0.1, gt=0)
    backoff_max_s: float = Field(default=10.0, gt=0)
