"""What can go wrong with binlog files; errors of the file system are those of ``sink.file``."""

from __future__ import annotations

from cdc.base.errors import DefiniteError, InternalError


class BinlogGtidTagged(DefiniteError):
    """A GTID with a tag, which the events that are written have no place for."""

    code = "TG:ErrBinlogGtidTagged"


class BinlogFileLost(DefiniteError):
    """A file has lost bytes that were written to it."""

    code = "TG:ErrBinlogFileLost"


class BinlogInternal(InternalError):
    """Something that should be impossible."""

    code = "TG:ErrBinlogInternal"
