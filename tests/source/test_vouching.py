"""What answers of a server allow: values only; the servers are in test_standing_servers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc.coord.messages import UpstreamInfo
from cdc.source.position import UpstreamPosition
from cdc.source.server_standing import ServerStanding
from cdc.source.vouching import Answer, HistoryVerdict, Vouching, doubtful, settle, take

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
MYSQL = UpstreamInfo(name="u", uri="", server_kind="mysql", server_uuid=U, server_id=1)
MARIADB = UpstreamInfo(name="u", uri="", server_kind="mariadb", server_id=1)
S = 1_000_000
HERE = UpstreamPosition("bin.000003", 500, f"{U}:1-9", 1000, 1)
NOW = ServerStanding(2000 * S, U, 1, "", "bin.000003", 500, f"{U}:1-9", "", 4)


def _take(
    standing: ServerStanding,
    *,
    here: UpstreamPosition = HERE,
    registered: UpstreamInfo = MYSQL,
    vouching: Vouching | None = None,
    now_s: float = 10.0,
) -> tuple[Vouching, HistoryVerdict, str]:
    vouching = vouching if vouching is not None else Vouching(known=NOW)
    return take(vouching, registered, Answer(here, standing, now_s), 0, now_s)


@pytest.mark.parametrize(
    ("standing", "verdict"),
    [
        (NOW, HistoryVerdict.FINE),
        (replace(NOW, executed=f"{U}:1-8", owned=f"{U}:9"), HistoryVerdict.FINE),
        (replace(NOW, executed=f"{U}:1-8"), HistoryVerdict.RESET),
        (replace(NOW, executed=""), HistoryVerdict.RESET),
        (replace(NOW, uuid="other"), HistoryVerdict.OTHER_SERVER),
        # A RESET was counted, and nobody has looked at the file yet.
        (replace(NOW, resets=5), HistoryVerdict.BEHIND),
        (replace(NOW, resets=5, created=1000, first_file=3), HistoryVerdict.FINE),
        (replace(NOW, resets=5, created=1001, first_file=3), HistoryVerdict.RESET),
        (replace(NOW, resets=5, created=0), HistoryVerdict.RESET),
    ],
)
def test_mysql(standing: ServerStanding, verdict: HistoryVerdict) -> None:
    assert _take(standing)[1] is verdict


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, HistoryVerdict.FINE),
        ({"pos": 499}, HistoryVerdict.RESET),
        ({"file": "bin.000001", "pos": 9999}, HistoryVerdict.RESET),
        ({"file": "bin.000004", "pos": 4}, HistoryVerdict.FINE),
        ({"server_id": 2, "created": 1000}, HistoryVerdict.FINE),
        ({"server_id": 2, "created": 1000, "written_by": 1}, HistoryVerdict.FINE),
        # Two servers that began in the same second.
        ({"server_id": 2, "created": 1000, "written_by": 2}, HistoryVerdict.OTHER_SERVER),
        ({"server_id": 2, "created": 1500}, HistoryVerdict.OTHER_SERVER),
        ({"server_id": 2, "pos": 499}, HistoryVerdict.OTHER_SERVER),
    ],
)
def test_mariadb(change: dict[str, int | str], verdict: HistoryVerdict) -> None:
    standing = replace(NOW, uuid="", executed=None, **change)  # type: ignore[arg-type]
    here = replace(HERE, gtid="0-1-9")
    known = Vouching(known=replace(NOW, uuid="", executed=None))
    assert _take(standing, here=here, registered=MARIADB, vouching=known)[1] is verdict


def test_a_file_of_this_very_second_is_not_believed() -> None:
    known = Vouching(known=replace(NOW, clock_us=1000 * S))
    young = replace(NOW, clock_us=1001 * S, resets=5, created=1000, first_file=3)
    assert _take(young, vouching=known)[1] is HistoryVerdict.RESET
    assert _take(replace(young, first_file=2), vouching=known)[1] is HistoryVerdict.FINE


def test_the_file_is_looked_at_for_a_while_after_a_reset_was_counted() -> None:
    counted = replace(NOW, resets=5, created=1000, first_file=1)
    vouching, verdict, _ = _take(counted)
    assert verdict is HistoryVerdict.FINE
    # The statement may still wait for a lock, so the count alone says nothing yet.
    assert doubtful(vouching, replace(counted, created=None), 11.0)
    assert not doubtful(vouching, replace(counted, created=None), 200.0)


def test_only_what_was_reached_is_vouched_for() -> None:
    ahead = replace(NOW, pos=900, executed=f"{U}:1-10")
    vouching, verdict, _ = _take(ahead)
    assert verdict is HistoryVerdict.FINE
    vouching, verdict = settle(vouching, HERE, 1, 11.0)
    assert (verdict, vouching.vouched_us) == (HistoryVerdict.BEHIND, 0)
    # A later answer does not push the older one away: or a busy server would never be reached.
    later = Answer(HERE, replace(ahead, clock_us=2001 * S, pos=990), 12.0)
    vouching, _, _ = take(vouching, MYSQL, later, 2, 12.0)
    assert settle(vouching, HERE, 3, 30.0)[1] is HistoryVerdict.STALLED
    there = replace(HERE, pos=900, gtid=f"{U}:1-10")
    vouching, verdict = settle(vouching, there, 3, 30.0)
    assert (verdict, vouching.vouched_us) == (HistoryVerdict.FINE, 2000 * S)


def test_what_no_dump_will_send_is_not_waited_for() -> None:
    gone = "11111111-71ca-11e1-9e33-c80aa9429562:1-5"
    vouching, _, _ = _take(replace(NOW, pos=501, executed=f"{U}:1-9,{gone}", purged=gone))
    assert settle(vouching, HERE, 0, 10.0)[1] is HistoryVerdict.FINE
