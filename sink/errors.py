"""Errors that every sink shares: of its URI and options, of messages, and of a stale owner."""

from __future__ import annotations

from cdc.base.errors import DefiniteError, FencedError, InvalidError, TransientError


class SinkURIInvalid(InvalidError):
    """A sink URI or a sink option that cannot be used."""

    code = "TG:ErrSinkURIInvalid"


class SinkUnknownOption(InvalidError):
    """A key that no option has."""

    code = "TG:ErrSinkUnknownOption"


class SinkOptionNotSupported(InvalidError):
    """An option that is known, but not supported by this sink."""

    code = "TG:ErrSinkOptionNotSupported"


class SinkUnknownProtocol(InvalidError):
    """No or an unknown ``protocol``."""

    code = "TG:ErrSinkUnknownProtocol"


class SinkProtocolNotSupported(InvalidError):
    """A ``protocol`` of TiCDC that is not supported yet."""

    code = "TG:ErrSinkProtocolNotSupported"


class MessageTooLarge(DefiniteError):
    """A message over the limit of the sink or of its broker."""

    code = "TG:ErrMessageTooLarge"


class WindowTooLarge(TransientError):
    """More than the sink takes in one transaction, or in the time that one may take."""

    code = "TG:ErrWindowTooLarge"


class TargetConstraint(DefiniteError):
    """A foreign key or check of the target forbids the row."""

    code = "TG:ErrTargetConstraint"


class LayoutOutgrown(TransientError):
    """A table came after the last recovery, which gives tables their destinations."""

    code = "TG:ErrLayoutOutgrown"


class FencedEpoch(FencedError):
    """The ledger holds another epoch than ours: somebody newer delivers this changefeed."""

    code = "TG:ErrFencedEpoch"
