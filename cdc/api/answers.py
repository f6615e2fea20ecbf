"""What answers of all kinds have: errors, pages of lists, and those about the server itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from pydantic import BaseModel, Field

from cdc.base.redaction import RedactMode

Item = TypeVar("Item")


class Reason(BaseModel):
    """One of several things that are wrong with a request."""

    error_msg: str
    error_code: str
    object: str
    hint: str


class ApiError(BaseModel):
    """Body of every answer that is not 2xx."""

    error_msg: str
    error_code: str
    kind: str
    object: str = ""
    hint: str = ""
    reasons: list[Reason] = Field(
        default_factory=list, description="Of TG:ErrSeveralReasons: all of them; else left out."
    )


class Empty(BaseModel):
    """``{}``."""


class ServerStatus(BaseModel):
    """``GET /status``."""

    version: str
    git_hash: str = ""
    id: str
    cluster_id: str
    pid: int
    is_owner: bool
    liveness: int


class Tso(BaseModel):
    """``POST /tso``."""

    timestamp: int
    logic_time: int
    tso: int


class Redacted(BaseModel):
    """``POST /log/redact``: how much of users' data log lines showed, and show."""

    previous_mode: RedactMode
    current_mode: RedactMode


class Page(BaseModel, Generic[Item]):
    """``{"total": n, "items": […]}``; ``total`` counts those of the other pages too."""

    total: int
    items: list[Item]

    @classmethod
    def of(cls, items: Sequence[Item]) -> Page[Item]:
        """All items on one page."""
        return cls(total=len(items), items=list(items))
