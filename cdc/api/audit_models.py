"""One line of ``GET /audit``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from cdc.base.ts import compose, to_text
from cdc.coord.messages import AuditEntry


class AuditOut(BaseModel):
    """A change that somebody asked for. ``outcome``: ``ok``, the code of an error, or empty: the
    server ended, or lost its store, before it was known.

    ``before`` and ``after`` have what differs, by path; ``request`` is the body of one that was
    carried out. None of them has secrets.
    """

    time: str
    ts: int
    caller: str
    role: str
    peer: str
    capture: str
    action: str
    object: str
    outcome: str
    status: int
    request: Any
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    @classmethod
    def of(cls, entry: AuditEntry) -> AuditOut:
        """From the store's form."""
        ts = compose(entry.time_ms)
        return cls(
            ts=ts, time=to_text(ts), **entry.model_dump(include=cls.model_fields.keys() - {"ts"})
        )
