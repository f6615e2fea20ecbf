"""What can go wrong with files, as our five kinds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cdc.base.errors import DefiniteError, InternalError, InvalidError, TransientError


class FileFolderUnusable(InvalidError):
    """The folder is none that files can be written to."""

    code = "TG:ErrFileFolderUnusable"


class FileFolderTaken(InvalidError):
    """Another changefeed delivers into the folder."""

    code = "TG:ErrFileFolderTaken"


class FileUnavailable(TransientError):
    """The file system did not do what was asked: it is full, or gone for a while."""

    code = "TG:ErrFileUnavailable"


class FileLedgerLost(DefiniteError):
    """The folder does not know the changefeed, though it has delivered before."""

    code = "TG:ErrFileLedgerLost"


class FileLedgerDamaged(DefiniteError):
    """A record of the ledger is not what was written."""

    code = "TG:ErrFileLedgerDamaged"


class FileInternal(InternalError):
    """Something that should be impossible."""

    code = "TG:ErrFileInternal"


@contextmanager
def mapped() -> Iterator[None]:
    """Errors of the file system as ours."""
    try:
        yield
    except OSError as e:
        raise FileUnavailable(
            e.strerror or type(e).__name__,
            object=str(e.filename or "file sink"),
            hint="see whether the folder's disk is full, mounted and writable; delivery goes on"
            " by itself",
        ) from e
