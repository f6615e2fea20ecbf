"""What can go wrong with a change log."""

from __future__ import annotations

from cdc.base.errors import DefiniteError, InternalError, TransientError


class LogLocked(TransientError):
    """Another process writes this log."""

    code = "TG:ErrLogLocked"


class LogCorrupt(DefiniteError):
    """Bytes of the log are not what was written; names file and offset."""

    code = "TG:ErrLogCorrupt"


class LogCollected(DefiniteError):
    """The log no longer reaches back as far as was asked."""

    code = "TG:ErrLogCollected"


class LogMissing(TransientError):
    """There is no log in this folder (yet)."""

    code = "TG:ErrLogMissing"


class LogReplaced(TransientError):
    """Another log has taken the place of the one that was opened: its ts are others."""

    code = "TG:ErrLogReplaced"


class LogWriteFailed(TransientError):
    """The file system refused a write or a sync; the writer must be opened anew."""

    code = "TG:ErrLogWrite"


class DiskBudgetSpent(TransientError):
    """The log has used what it may use of the disk."""

    code = "TG:ErrDiskBudget"


class TransactionTooLarge(DefiniteError):
    """One transaction alone needs more than the log may use of the disk."""

    code = "TG:ErrTransactionTooLarge"


class LogOrderBroken(InternalError):
    """The puller handed over runs that break an invariant of the log."""

    code = "TG:ErrLogOrder"
