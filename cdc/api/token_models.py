"""Bodies about tokens of the API."""

from __future__ import annotations

from pydantic import BaseModel, Field

from cdc.base.ts import compose, to_text
from cdc.coord.messages import ApiToken


class TokenOut(BaseModel):
    """One token without its secret; times in UTC, empty: never."""

    name: str
    role: str
    created_time: str
    created_by: str
    expires_time: str
    expired: bool

    @classmethod
    def of(cls, token: ApiToken, *, expired: bool) -> TokenOut:
        """From what the store has."""
        return cls(
            name=token.name,
            role=token.role,
            created_time=to_text(compose(token.created_ms)),
            created_by=token.created_by,
            expires_time=to_text(compose(token.expires_ms)) if token.expires_ms else "",
            expired=expired,
        )


class CreatedToken(TokenOut):
    """The same with the token itself: this once, and never again."""

    token: str = Field(repr=False)
