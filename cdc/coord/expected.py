"""A change of what somebody has looked at: refused if it is another one by now.

What was looked at is named by the store's revision of its key, which is also what the change is
compared with: nothing can come in between.
"""

from __future__ import annotations

from cdc.base.errors import InvalidError
from cdc.coord.contract import StoredKey

Expected = frozenset[int] | None
"""Revisions of which the key must have one; None: any, also that it does not exist."""


class ChangedSince(InvalidError):
    """It was changed, by a person or by the server, since the caller has looked at it."""

    code = "TG:ErrChangedSince"


def check(entry: StoredKey | None, expected: Expected, object: str) -> None:
    """Raise ChangedSince unless the entry is one that is expected."""
    if expected is None or (entry is not None and entry.mod_revision in expected):
        return
    raise ChangedSince(
        "it is not what it was when you looked at it" if entry else "it does not exist any more",
        object=object,
        hint="look at it again, then change it if that is still wanted",
    )
