"""What the log lines of a piece of work are about: a changefeed, an upstream, a request.

Fields belong to the thread or task that does the work, so that no line has to name them itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

NAMES = ("changefeed", "upstream", "request")
"""The fields that a line can have, in the order in which they are shown."""

_ATTRIBUTE = "tidegate_fields"
_fields: ContextVar[Mapping[str, str]] = ContextVar(
    "tidegate_log_fields", default=MappingProxyType({})
)


@contextmanager
def about(**fields: str) -> Iterator[None]:
    """Lines that are logged within have these fields too. Raises ValueError for other names."""
    if unknown := fields.keys() - set(NAMES):
        raise ValueError(f"unknown fields of log lines: {sorted(unknown)}")
    token = _fields.set(MappingProxyType({**_fields.get(), **fields}))
    try:
        yield
    finally:
        _fields.reset(token)


class FieldsFilter(logging.Filter):
    """Notes the fields in each record, on the thread that logs it; lets every record pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """As of :class:`logging.Filter`."""
        setattr(record, _ATTRIBUTE, _fields.get())
        return True


def fields_of(record: logging.LogRecord) -> Mapping[str, str]:
    """The fields that a record was given."""
    fields: Mapping[str, str] = getattr(record, _ATTRIBUTE, MappingProxyType({}))
    return fields
