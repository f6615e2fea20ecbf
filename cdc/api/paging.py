"""Which part of a list is asked for: ``offset``, ``limit``, and a part of the name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Query

_LARGEST = 10_000

_Listed = TypeVar("_Listed")


@dataclass(frozen=True)
class ListPart:
    """Items ``offset`` to ``offset + limit`` of those whose name contains ``contains``.

    A ``limit`` of 0: all that follow. Upper and lower case of a name are the same.
    """

    offset: int = 0
    limit: int = 0
    contains: str = ""

    def has(self, name: str) -> bool:
        """Whether one of this name is asked for."""
        return self.contains.lower() in name.lower()

    def of(self, items: Sequence[_Listed]) -> Sequence[_Listed]:
        """The part of these; ``has`` was asked before."""
        end = self.offset + self.limit if self.limit else None
        return items[self.offset : end]


def _part(
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=0, le=_LARGEST, description="0: all that follow")] = 0,
    contains: Annotated[str, Query(description="A part of the name, in any case")] = "",
) -> ListPart:
    return ListPart(offset, limit, contains)


AskedPart = Annotated[ListPart, Depends(_part)]
"""As a parameter of a route."""
