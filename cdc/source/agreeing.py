"""Whether tables are on the server as a log's statements have left them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc.base.errors import DefiniteError
from cdc.schema.snapshot import Schema, Wanted, same_text


def agrees(known: Schema, read: Mapping[str, Any], wanted: Wanted) -> bool:
    """Whether ``read``, a snapshot of the wanted tables alone, says nothing else of them.

    A table that statements have lost agrees with none.
    """
    fresh = Schema(read)
    names = {n for n in known.tables_of(wanted.matches_schema) if wanted.matches(*n)}
    if names != set(fresh):
        return False
    try:
        return all(
            # Texts first: reading tables is what takes long where there are many.
            same_text(known.text(name), fresh.text(name)) or known[name] == fresh[name]
            for name in names
        )
    except DefiniteError:
        return False
