"""Events with everything compressed replaced by the plain events that it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cdc.base.errors import TidegateError
from cdc.binlog.compressed import PLAIN, plain_event
from cdc.binlog.events import Dialect, Disposition, EventType, kind_of, refuse
from cdc.binlog.header import EventHeader
from cdc.binlog.payload import payload_events
from cdc.binlog.reader import Event, located


def expanded(events: Iterable[Event], *, keep_containers: bool = False) -> Iterator[Event]:
    """Yield plain events; those out of a TRANSACTION_PAYLOAD have no checksum (``trailer`` 0).

    ``keep_containers`` yields the compressed event itself before what it holds.
    """
    for event in events:
        if event.type is EventType.TRANSACTION_PAYLOAD:
            if keep_containers:
                yield event
            yield from _inside(event)
        elif event.type in PLAIN:
            if keep_containers:
                yield event
            yield _plain(event)
        else:
            yield event


def _inside(event: Event) -> Iterator[Event]:
    source = payload_events(event.body)
    number = 0
    while True:
        try:
            data = next(source, None)
        except TidegateError as error:
            raise located(error, event.where) from None
        if data is None:
            return
        header = EventHeader.parse(data)
        where = f"{event.file}:{event.offset} (event {number} inside)"
        kind = kind_of(Dialect.MYSQL, header.type_code, position=where)
        if kind.disposition is Disposition.REFUSED:
            raise refuse(kind, position=where)
        yield Event(event.file, event.offset, header, kind, data, 0, Dialect.MYSQL, number)
        number += 1


def _plain(event: Event) -> Event:
    try:
        data = plain_event(event.data, trailer=event.trailer)
    except TidegateError as error:
        raise located(error, event.where) from None
    header = EventHeader.parse(data)
    kind = kind_of(Dialect.MARIADB, header.type_code, position=event.where)
    return Event(event.file, event.offset, header, kind, data, event.trailer, event.dialect, 0)
