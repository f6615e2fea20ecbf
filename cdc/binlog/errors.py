"""What can be wrong with a binlog; every error names the place where it can be known."""

from __future__ import annotations

from cdc.base.errors import DefiniteError, InvalidError


class NotBinlog(InvalidError):
    """The file does not begin with a binlog's magic and format description."""

    code = "TG:ErrNotBinlog"


class EventTruncated(DefiniteError):
    """The file or buffer ends inside an event."""

    code = "TG:ErrEventTruncated"


class EventLengthBad(DefiniteError):
    """The length in an event's header is impossible."""

    code = "TG:ErrEventLengthBad"


class EventChecksumBad(DefiniteError):
    """The CRC-32 of an event does not match its bytes."""

    code = "TG:ErrEventChecksumBad"


class EventMalformed(DefiniteError):
    """A field of an event reaches out of it, or has an impossible value."""

    code = "TG:ErrEventMalformed"


class EventUnknown(DefiniteError):
    """The type of an event is in no table of ours."""

    code = "TG:ErrEventUnknown"


class EventRefused(DefiniteError):
    """The event is known, and we cannot deliver what it means."""

    code = "TG:ErrEventRefused"


class UpstreamIncident(DefiniteError):
    """The server itself says that events were lost."""

    code = "TG:ErrUpstreamIncident"


class StatementFormat(DefiniteError):
    """Data was changed by a statement in the binlog, not by row images."""

    code = "TG:ErrStatementFormat"


class GtidTextBad(InvalidError):
    """A GTID set or position does not parse."""

    code = "TG:ErrGtidTextBad"


class TransactionStructureBad(DefiniteError):
    """Events follow each other in an order that no server writes."""

    code = "TG:ErrTransactionStructureBad"
