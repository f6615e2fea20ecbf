"""What can go wrong between a worker and the capture that has the log."""

from __future__ import annotations

from cdc.base.errors import TransientError


class LogUnreachable(TransientError):
    """A worker cannot read the log from the capture that has it."""

    code = "TG:ErrLogUnreachable"


class LogAccessRefused(TransientError):
    """The capture does not take a worker's token: it has begun anew since, or is another one."""

    code = "TG:ErrLogAccessRefused"


class LogEndpointForeign(TransientError):
    """What answers in the capture's place shows another certificate."""

    code = "TG:ErrLogEndpointForeign"
