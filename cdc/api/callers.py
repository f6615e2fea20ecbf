"""``/api/v2/caller``: who asks, and what they may do. Not in TiCDC, which has no roles."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from cdc.api import roles
from cdc.server.api_tokens import Caller


class CallerOut(BaseModel):
    """The name and role of the token that the request came with."""

    name: str
    role: str
    may: list[str] = Field(description="What the role lets through: `METHOD /path` as in the API.")

    @classmethod
    def of(cls, caller: Caller) -> CallerOut:
        """From what the guard knows."""
        may = sorted(f"{m} {p}" for (m, p), role in roles.ROUTES.items() if role <= caller.role)
        return cls(name=caller.name, role=str(caller.role), may=may)


def router() -> APIRouter:
    """The one route."""
    routes = APIRouter(prefix="/caller", tags=["token"])

    @routes.get("")
    def caller(request: Request) -> CallerOut:
        return CallerOut.of(request.state.caller)

    return routes
