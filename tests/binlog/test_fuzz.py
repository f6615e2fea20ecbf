"""Parsers fed with anything raise TidegateError or return."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.base.errors import TidegateError
from cdc.binlog import control
from cdc.binlog.compressed import plain_event
from cdc.binlog.events import EventType
from cdc.binlog.format_description import FormatDescription
from cdc.binlog.gtid import Gtid, MariadbGtidEvent
from cdc.binlog.gtid_list import GtidList
from cdc.binlog.gtid_set import GtidSet, MariadbGtidPosition
from cdc.binlog.payload import payload_events
from cdc.binlog.query import Query, StatusVariables
from cdc.binlog.rows_header import RowsHeader
from cdc.binlog.table_map import TableMap
from cdc.binlog.writer import build_event
from cdc.binlog.xa import XaPrepare, parse_statement
from tests.binlog.sample import TABLE
from tests.seeds import seed

PARSERS: list[Callable[[bytes], object]] = [
    FormatDescription.parse,
    Gtid.parse,
    Gtid.parse_tagged,
    lambda b: MariadbGtidEvent.parse(b, 1),
    GtidList.parse,
    GtidSet.decode,
    Query.parse,
    StatusVariables.parse,
    lambda b: TableMap.parse(b).details(),
    lambda b: TableMap.parse(TABLE.encode() + b).details(),
    lambda b: RowsHeader.parse(EventType.UPDATE_ROWS, b),
    lambda b: list(payload_events(b)),
    lambda b: plain_event(
        build_event(EventType.MARIADB_QUERY_COMPRESSED, b, crc32=False), trailer=0
    ),
    XaPrepare.parse,
    control.Rotate.parse,
    control.Heartbeat.parse,
    control.Heartbeat.parse_v2,
    control.Incident.parse,
    control.parse_xid,
    lambda b: GtidSet.parse(b.decode("latin1")),
    lambda b: MariadbGtidPosition.parse(b.decode("latin1")),
    lambda b: parse_statement("XA COMMIT " + b.decode("latin1")),
]


@pytest.mark.parametrize("number", range(len(PARSERS)))
@hypothesis.seed(seed())
@settings(max_examples=150, deadline=None, database=None)
@given(data=st.binary(max_size=120))
def test_parsers_raise_only_our_errors(number: int, data: bytes) -> None:
    """No IndexError, ValueError, struct.error or endless loop on any bytes."""
    with contextlib.suppress(TidegateError):
        PARSERS[number](data)
