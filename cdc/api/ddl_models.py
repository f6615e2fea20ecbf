"""Bodies about schema changes that wait, and of decisions on them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from cdc.api.changefeed_models import FeedError
from cdc.base.secrets import mask_sql, mask_text
from cdc.base.ts import compose, to_text
from cdc.coord.messages import DdlAction, DdlDecision, DdlEntry, DdlState


class Decide(BaseModel):
    """``POST /changefeeds/{id}/ddls/{ts}/hold|approve|skip``."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(default="", max_length=1000)


class DecisionOut(BaseModel):
    """What an operator has said."""

    action: DdlAction
    reason: str
    time: str

    @classmethod
    def of(cls, decision: DdlDecision) -> DecisionOut:
        """From the store's form."""
        return cls(
            action=decision.action, reason=decision.reason, time=shown_time(decision.time_ms)
        )


class DdlOut(BaseModel):
    """A schema change. ``tables`` wait for it, and it for ``waits_for``; ``since`` is when it was
    first seen."""

    ts: int
    time: str
    sql: str
    kind: str
    state: DdlState
    tables: list[str]
    waits_for: list[str]
    since: str
    begun: str
    ended: str
    why: str
    error: FeedError | None
    decision: DecisionOut | None

    @classmethod
    def of(cls, entry: DdlEntry, decision: DdlDecision | None) -> DdlOut:
        """From the store's messages."""
        same = entry.model_dump(
            include={"ts", "sql", "kind", "state", "tables", "waits_for", "why"}
        )
        return cls(
            **same | {"sql": mask_sql(entry.sql), "why": mask_text(entry.why)},
            time=to_text(entry.ts),
            since=shown_time(entry.since_ms),
            begun=shown_time(entry.begun_ms),
            ended=shown_time(entry.ended_ms),
            error=FeedError.of(entry.error),
            decision=DecisionOut.of(decision) if decision else None,
        )


class DdlPage(BaseModel):
    """``GET /changefeeds/{id}/ddls``: those that wait come first, then the last that ended.

    The counts are of all since the changefeed began or was resumed.
    """

    total: int
    items: list[DdlOut]
    policy: str
    executed: int
    skipped: int
    ignored: int


def shown_time(ms: int) -> str:
    """A time of the clock, "" for none."""
    return to_text(compose(ms)) if ms else ""
