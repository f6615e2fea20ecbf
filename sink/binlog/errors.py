"""What can go wrong with binlog files; errors of the file system are those of ``sink.file``."""

from __future__ import annotations

from cdc.base.errors import DefiniteError, InternalError, InvalidError, TransientError


class BinlogGtidTagged(DefiniteError):
    """A GTID with a tag, which the events that are written have no place for."""

    code = "TG:ErrBinlogGtidTagged"


class BinlogFileLost(DefiniteError):
    """A file has lost bytes that were written to it."""

    code = "TG:ErrBinlogFileLost"


class BinlogStreamsFixed(InvalidError):
    """A folder whose files are another number of streams, or are split by something else."""

    code = "TG:ErrBinlogStreamsFixed"


class BinlogRowsMove(DefiniteError):
    """A schema change behind which rows of a table would belong to another stream."""

    code = "TG:ErrBinlogRowsMove"


class BinlogListenUnusable(InvalidError):
    """What replicas are to be shown, or let in by, cannot be used."""

    code = "TG:ErrBinlogListenUnusable"


class BinlogNotListening(TransientError):
    """The address at which replicas are to be served cannot be had."""

    code = "TG:ErrBinlogNotListening"


class BinlogInternal(InternalError):
    """Something that should be impossible."""

    code = "TG:ErrBinlogInternal"
