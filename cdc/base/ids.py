"""Whose ledger it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class FeedId:
    """A changefeed as a sink's ledger knows it; no two that ever were have the same.

    ``installation`` is made at random once with the store. ``incarnation`` grows whenever a
    changefeed of this name begins with an empty ledger: when it is created, and when it is resumed
    from another ts than its checkpoint.
    """

    installation: str
    name: str
    incarnation: int

    def __str__(self) -> str:
        """As people know it."""
        return self.name

    def upto(self, other: FeedId) -> bool:
        """Whether it is ``other``, or an earlier incarnation of it."""
        mine, theirs = self.key, other.key
        return mine[:2] == theirs[:2] and mine[2] <= theirs[2]

    @property
    def key(self) -> tuple[str, str, int]:
        """As the parts of a ledger's key."""
        return (self.installation, self.name, self.incarnation)

    @property
    def text(self) -> str:
        """As one text, for names of locks and the like."""
        return f"{self.name}-{self.installation}-{self.incarnation}"
