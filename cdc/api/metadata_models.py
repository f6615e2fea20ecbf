"""One entry of ``GET /unsafe/metadata``."""

from __future__ import annotations

from pydantic import BaseModel


class StoredOut(BaseModel):
    """A key of the store. ``value`` is text: JSON without secrets, long parts of it shortened.

    Of bytes that are no text it says how many; ``revision`` is the store's at the last change.
    """

    key: str
    value: str
    revision: int
