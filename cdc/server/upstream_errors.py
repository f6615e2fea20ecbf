"""What goes wrong with upstreams as such, whatever their servers do."""

from __future__ import annotations

from cdc.base.errors import InvalidError, TransientError


class UpstreamNotFound(InvalidError):
    """There is no upstream of this name."""

    code = "TG:ErrUpstreamNotFound"


class UpstreamExists(InvalidError):
    """An upstream of this name is registered."""

    code = "TG:ErrUpstreamExists"


class UpstreamChanging(InvalidError):
    """The upstream is being changed, or was changed meanwhile."""

    code = "TG:ErrUpstreamChanging"


class UpstreamInUse(InvalidError):
    """Changefeeds read this upstream."""

    code = "TG:ErrUpstreamInUse"


class UpstreamNameInvalid(InvalidError):
    """The name of an upstream breaks the rules."""

    code = "TG:ErrUpstreamNameInvalid"


class PullerFailed(TransientError):
    """A puller ended in a way that it did not name."""

    code = "TG:ErrPullerFailed"


class UpstreamLogNotReady(TransientError):
    """The upstream's log is not there yet."""

    code = "TG:ErrUpstreamLogNotReady"
