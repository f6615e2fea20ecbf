"""A log is made anew for a position that it has elsewhere, not for one that it is to come to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cdc.base.position import Stand, TransactionName
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import FeedInfo
from processor.log_agreement import PATIENCE_S, LogAgreement, LogDisagrees, PositionAhead
from tests.changelog.logs import dml, open_log
from tests.processor.test_copy_progress import ManualClock

FIRST = TransactionName(200, "", 20, -1)
AHEAD = TransactionName(300, "", 30, -1)
"""What an earlier log had there, and nobody has told this one."""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LogWriter]:
    """A log on its way: it has come to the first position only."""
    with open_log(tmp_path) as made:
        made.begin(100, {})
        dml(made, 200, [(0, 1)], sequence=20)
        made.commit(200, {})
        yield made


class Checked:
    """A changefeed whose ledger stands at both transactions."""

    def __init__(self, folder: Path, log: ChangeLog) -> None:
        info = FeedInfo(id="f", upstream="u", sink_uri="blackhole://", start_ts=1)
        self.log, self.clock, self.told = log, ManualClock(), list[str]()
        self._agreement = LogAgreement(info, log, folder, self.told.append, self.clock)

    def check(self) -> None:
        """Hold the ledger against the log as it is now."""
        self.log.refresh()
        stands = [Stand(at.ts, transactions={at.ts: at}) for at in (AHEAD, FIRST)]
        self._agreement.check(stands)


@pytest.fixture
def checked(writer: LogWriter, tmp_path: Path) -> Iterator[Checked]:
    with closing(ChangeLog.open(tmp_path)) as log:
        yield Checked(tmp_path, log)


def test_a_position_that_lies_right_when_the_log_comes_to_it(
    writer: LogWriter, checked: Checked
) -> None:
    with pytest.raises(PositionAhead) as raised:
        checked.check()
    assert raised.value.kind == "transient"
    dml(writer, 300, [(0, 1)], sequence=30)
    writer.commit(300, {})
    checked.check()
    assert checked.told == []


def test_a_position_that_does_not(writer: LogWriter, checked: Checked) -> None:
    with pytest.raises(PositionAhead):
        checked.check()
    dml(writer, 301, [(0, 1)], sequence=30)
    writer.commit(301, {})
    with pytest.raises(LogDisagrees):
        checked.check()
    assert checked.told == ["u"]


def test_a_log_that_does_not_come_to_it(writer: LogWriter, checked: Checked) -> None:
    with pytest.raises(PositionAhead):
        checked.check()
    checked.clock.t += PATIENCE_S - 0.1
    with pytest.raises(PositionAhead):
        checked.check()
    assert checked.told == []
    checked.clock.t += 0.2
    with pytest.raises(LogDisagrees):
        checked.check()
    assert checked.told == ["u"]


def test_one_that_is_elsewhere_is_said_though_another_is_ahead(
    writer: LogWriter, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tests.processor.test_log_agreement.FIRST", TransactionName(200, "", 21, -1)
    )
    with pytest.raises(LogDisagrees):
        checked.check()
    assert checked.told == ["u"]
