"""Dates and times: what the server prints for the image that it wrote."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from cdc.kernels.values import dates, old_dates
from cdc.kernels.values.errors import FRACTION_DIGITS, TEMPORAL_RANGE
from cdc.kernels.values.zones import UTC_ZONE, ZoneUnknown, zone_table
from tests.values.images import images
from tests.values.kernel import Refused, text

SERVERS = ["mariadb-11.4", "mysql-8.0"]
INSTANTS = ["0000-00-00 00:00:00", "2020-02-29 23:59:59.987654", "1971-01-01 00:00:01.000001"]
DATETIMES = [
    *INSTANTS,
    "9999-12-31 23:59:59",
    "1000-01-01 00:00:00.5",
    "2020-00-00 01:02:03.100000",
]
TIMES = [
    "00:00:00",
    "838:59:59",
    "-838:59:59",
    "-00:00:00.1",
    "-00:00:01.9",
    "12:34:56.789012",
    "-99:59:59.000001",
    "100:00:00.5",
]


def shown(database, name, column, values, **more):  # type: ignore[no-untyped-def]
    quoted = [f"'{v}'" for v in values]
    return images(database(name).connect, column, quoted, show="cast(v as char)", **more)


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("fsp", range(7))
def test_times_with_fractions(database, name, fsp) -> None:  # type: ignore[no-untyped-def]
    zone = "set time_zone='+00:00'"
    for kind, _, image, expected in shown(database, name, f"datetime({fsp})", DATETIMES):
        assert kind == 18
        assert text(dates.datetime2, image, fsp) == expected
    for kind, _, image, expected in shown(
        database, name, f"timestamp({fsp})", INSTANTS, setup=zone
    ):
        assert kind == 17
        assert text(dates.timestamp2, image, fsp, *UTC_ZONE) == expected
    for kind, _, image, expected in shown(database, name, f"time({fsp})", TIMES):
        assert kind == 19
        assert text(dates.time2, image, fsp) == expected


@pytest.mark.parametrize("name", SERVERS)
def test_date(database, name) -> None:  # type: ignore[no-untyped-def]
    values = ["0000-00-00", "2020-02-29", "9999-12-31", "2020-00-00", "0001-01-01"]
    for kind, _, image, expected in shown(database, name, "date", values):
        assert kind == 10
        assert text(dates.date, image) == expected


@pytest.mark.parametrize("fsp", range(7))
def test_old_forms_of_mariadb(database, fsp) -> None:  # type: ignore[no-untyped-def]
    server = database("mariadb-11.4", options=["--mysql56-temporal-format=OFF"])
    for column, values, kernel, kind, zone in (
        ("datetime", DATETIMES, old_dates.datetime, 12, ()),
        ("timestamp", INSTANTS, old_dates.timestamp, 7, UTC_ZONE),
        ("time", TIMES, old_dates.time, 11, ()),
    ):
        quoted = [f"'{v}'" for v in values]
        found = images(
            server.connect,
            f"{column}({fsp})",
            quoted,
            show="cast(v as char)",
            setup="set time_zone='+00:00'",
        )
        for code, _, image, expected in found:
            assert code == kind
            lengths = {
                12: old_dates.DATETIME_BYTES,
                7: old_dates.TIMESTAMP_BYTES,
                11: old_dates.TIME_BYTES,
            }
            assert len(image) == lengths[kind][fsp]
            assert text(kernel, image, fsp, *zone) == expected


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"])
def test_zones_agree_with_the_database(name: str) -> None:
    zone = zone_table(name)
    for second in [
        *range(1, 1 << 32, 39_916_801),
        *zone.starts[1:].tolist(),
        *(zone.starts[1:] - 1).tolist(),
    ]:
        local = datetime.fromtimestamp(second, UTC).astimezone(ZoneInfo(name))
        data = second.to_bytes(4, "big")
        assert text(dates.timestamp2, data, 0, *zone) == local.strftime("%Y-%m-%d %H:%M:%S")


def test_unknown_zone() -> None:
    with pytest.raises(ZoneUnknown):
        zone_table("Mars/Olympus")


def test_malformed_values_are_refused() -> None:
    with pytest.raises(Refused, match=str(TEMPORAL_RANGE)):
        text(dates.datetime2, b"\xff" * 5, 0)
    with pytest.raises(Refused, match=str(TEMPORAL_RANGE)):
        text(dates.time2, b"\xff\xff\xff", 0)
    with pytest.raises(Refused, match=str(FRACTION_DIGITS)):
        text(dates.time2, b"\x80\x00\x00", 7)
