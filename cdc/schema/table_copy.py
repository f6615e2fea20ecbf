"""A table that was made to take another's place, as tools of online schema change make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from cdc.schema.session import Session
from cdc.schema.table import Table
from cdc.schema.table_json import decode, encode


class Proof(StrEnum):
    """What shows that a table is a tool's, and none of the user's."""

    NONE = ""
    GH_OST = "gh-ost"  # The tool's own comment stood in the statement that made it.
    TRIGGERS = "triggers"  # Triggers of the table that it is a copy of write into it.
    LEFT = "left"  # They have gone, so it is no true copy any more.
    SWAPPED = "swapped"  # A proven copy has taken its place.


@dataclass(frozen=True, slots=True)
class Alteration:
    """An ALTER TABLE of a copy, and how its text is read."""

    sql: str
    session: Session


@dataclass(frozen=True, slots=True)
class TableCopy:
    """What is known of a copy, beside its definition.

    ``model`` is the name of the table, of the same database, whose place it is to take or has had
    (``retired``); empty for a table that the tool made for itself. ``alterations`` are what has
    been done to it since it was made, in order; None if we have not seen all. ``triggers`` are the
    names of those that write into it. ``replaced`` is the model as it was, where it has gone
    before its copy came.
    """

    model: str = ""
    proof: Proof = Proof.NONE
    retired: bool = False
    alterations: tuple[Alteration, ...] | None = ()
    triggers: frozenset[str] = field(default=frozenset())
    replaced: Table | None = None


Copies = Mapping[str, TableCopy]
"""Of one database, by the name under which tables are looked up."""


def encode_copy(copy: TableCopy) -> dict[str, Any]:
    """As values that JSON has; the inverse of :func:`decode_copy`."""
    known = copy.alterations
    return {
        "model": copy.model,
        "proof": copy.proof.value,
        "retired": copy.retired,
        "alterations": None if known is None else [[a.sql, _session(a.session)] for a in known],
        "triggers": sorted(copy.triggers),
        "replaced": None if copy.replaced is None else encode(copy.replaced),
    }


def decode_copy(value: Mapping[str, Any]) -> TableCopy:
    """The copy of :func:`encode_copy`."""
    known, replaced = value["alterations"], value["replaced"]
    return TableCopy(
        model=value["model"],
        proof=Proof(value["proof"]),
        retired=value["retired"],
        alterations=None if known is None else tuple(Alteration(q, _read(s)) for q, s in known),
        triggers=frozenset(value["triggers"]),
        replaced=None if replaced is None else decode(replaced),
    )


_PLAIN = Session()


def _session(session: Session) -> dict[str, Any]:
    given = ((f.name, getattr(session, f.name)) for f in fields(Session))
    return {name: value for name, value in given if value != getattr(_PLAIN, name)}


def _read(value: Mapping[str, Any]) -> Session:
    return Session(**{name: _tuples(given) for name, given in value.items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
