"""Names of foreign keys: those that were given, and those that the server makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cdc.schema.draft import KeyDraft
from cdc.schema.session import Session


def given_name(key: KeyDraft, session: Session, *, in_place: bool = False) -> str:
    """The name that a statement gives to the foreign key of this draft; empty for none.

    MariaDB takes the key's name where the constraint has none; of an ALTER in place it comes first.
    """
    constraint, name = key.foreign or ("", "")
    if not session.mariadb:
        return constraint
    return (name or constraint) if in_place else (constraint or name)


def with_made(table: str, present: Sequence[str], given: Iterable[str]) -> tuple[str, ...]:
    """All names, with those of new foreign keys; the empty ones among these are made."""
    found = list(present)
    for name in given:
        found.append(name or f"{_made(table)}{_highest(table, found) + 1}")
    return tuple(found)


def moved(names: Sequence[str], old: str, new: str) -> tuple[str, ...]:
    """The names after a table was renamed: those that the server made follow."""
    head = _made(old)
    return tuple(
        f"{_made(new)}{n[len(head) :]}" if n.startswith(head) and n[len(head) :].isdigit() else n
        for n in names
    )


def _made(table: str) -> str:
    return f"{table}_ibfk_"


def _highest(table: str, names: Iterable[str]) -> int:
    head = _made(table)
    numbers = (n[len(head) :] for n in names if n.startswith(head))
    return max((int(n) for n in numbers if n.isdigit()), default=0)
