"""``/api/v2/tokens``: not in TiCDC, which has no roles. Any capture makes and revokes them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cdc.api.answers import Empty, Page
from cdc.api.token_models import CreatedToken, TokenOut
from cdc.coord.messages import ApiToken
from cdc.server.api_tokens import NAME, ApiRole
from cdc.server.capture import Capture

_LONGEST_S = 10 * 366 * 24 * 3600


def _whole(given: object) -> object:
    # To JSON Schema 60.0 is an integer too; true is none, and "60" is not either.
    return int(given) if isinstance(given, float) and given.is_integer() else given


_Seconds = Annotated[int, Field(strict=True, ge=1, le=_LONGEST_S), BeforeValidator(_whole)]


class CreateToken(BaseModel):
    """``POST /tokens``; ``expires_in_s``: seconds from now, None: it does not expire."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    role: Literal["viewer", "operator", "admin"]
    expires_in_s: _Seconds | None = None


def router(capture: Capture) -> APIRouter:
    """The routes over one capture."""
    routes = APIRouter(prefix="/tokens", tags=["token"])
    tokens = capture.tokens

    def shown(token: ApiToken) -> TokenOut:
        return TokenOut.of(token, expired=tokens.expired(token))

    @routes.get("")
    def list_tokens() -> Page[TokenOut]:
        return Page.of([shown(token) for token in tokens.all()])

    @routes.post("")
    def create(asked: CreateToken, request: Request, response: Response) -> CreatedToken:
        by = request.state.caller.name
        token, kept = tokens.create(asked.name, ApiRole.of(asked.role), asked.expires_in_s, by)
        response.headers["Cache-Control"] = "no-store"
        return CreatedToken(**shown(kept).model_dump(), token=token)

    @routes.delete("/{name}")
    def revoke(name: str) -> Empty:
        tokens.revoke(name)
        return Empty()

    return routes
