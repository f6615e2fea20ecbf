"""Messages as they lie in the store, read one by one: one that cannot be read harms no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from cdc.base.errors import DefiniteError
from cdc.coord.contract import StoredKey

M = TypeVar("M", bound=BaseModel)


class StoredValueUnreadable(DefiniteError):
    """A value in the store is not what this version understands; it is left as it is."""

    code = "TG:ErrStoredValueUnreadable"


def read(entry: StoredKey, kind: type[M]) -> M:
    """The message of an entry; raises :class:`StoredValueUnreadable`, which shows no content."""
    try:
        return kind.model_validate_json(entry.value)
    except ValidationError as e:
        first = e.errors(include_input=False, include_url=False, include_context=False)[0]
        # Names of fields are ours; what stands in them may be a secret.
        where = ".".join(str(p) for p in first["loc"]) or "value"
        raise StoredValueUnreadable(
            f"cannot be read as {kind.__name__}: {where}: {first['type']}",
            object=entry.key,
            hint="it was written by a newer version, or is damaged: start that version, restore "
            "the data directory, or remove what it belongs to and create it anew",
        ) from None


def readable(entries: Iterable[StoredKey], kind: type[M]) -> Iterator[tuple[StoredKey, M]]:
    """Those entries that can be read."""
    for entry in entries:
        try:
            message = read(entry, kind)
        except StoredValueUnreadable:
            continue
        yield entry, message
