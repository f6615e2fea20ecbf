"""What reading rows of an upstream's tables can meet."""

from __future__ import annotations

from cdc.base.errors import DefiniteError, TransientError


class SnapshotRowUnreadable(DefiniteError):
    """A row that SELECT gave does not fit the table's columns as the schema has them."""

    code = "TG:ErrSnapshotRowUnreadable"


class SnapshotTableUnreadable(DefiniteError):
    """The upstream does not let us read the rows of a table."""

    code = "TG:ErrSnapshotTableUnreadable"


class SnapshotReadBroken(TransientError):
    """A result set ended in its middle, or is none."""

    code = "TG:ErrSnapshotReadBroken"
