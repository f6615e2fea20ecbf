"""What can go wrong between us and an upstream server."""

from __future__ import annotations

from cdc.base.errors import DefiniteError, InvalidError, TransientError


class UpstreamGone(TransientError):
    """The server cannot be reached, closed the stream, or fell silent."""

    code = "TG:ErrUpstreamGone"


class StreamBroken(TransientError):
    """Bytes of the stream make no sense: damaged on the way, or cut."""

    code = "TG:ErrStreamBroken"


class ServerIdTaken(TransientError):
    """Another replica uses our server id."""

    code = "TG:ErrServerIdTaken"


class BinlogPurged(DefiniteError):
    """The server no longer holds the binlog that comes next."""

    code = "TG:ErrBinlogPurged"


class TransactionMissing(TransientError):
    """The server does not have (yet) a transaction that was delivered from another one."""

    code = "TG:ErrTransactionMissing"


LAGS_OR_LOST = (
    "if the server is a replica that lags, wait; if it has lost what the old primary had, compare"
    " source and target, and resume with --overwrite-checkpoint-ts"
)
"""What to do about a transaction that is missing."""


class TransactionMoved(DefiniteError):
    """A transaction that was delivered lies at another place in this server's binlog."""

    code = "TG:ErrTransactionMoved"


class UpstreamReset(DefiniteError):
    """The server's history is not the one that we pulled (RESET MASTER, another server)."""

    code = "TG:ErrUpstreamReset"


class RollbackUndecided(DefiniteError):
    """What a transaction has rolled back cannot be told."""

    code = "TG:ErrRollbackUndecided"


class XaNotKnown(DefiniteError):
    """XA COMMIT of a transaction whose rows are not in the log."""

    code = "TG:ErrXaNotKnown"


class UpstreamNotReady(InvalidError):
    """The server's settings or our privileges do not suffice."""

    code = "TG:ErrUpstreamNotReady"


class UpstreamOtherServer(InvalidError):
    """The new access leads to another server than the one whose changes the log has."""

    code = "TG:ErrUpstreamOtherServer"


class UpstreamUriInvalid(InvalidError):
    """The URI of an upstream does not parse."""

    code = "TG:ErrUpstreamUriInvalid"


class UpstreamSeveral(InvalidError):
    """One server is asked for where the upstream has several nodes."""

    code = "TG:ErrUpstreamSeveral"
