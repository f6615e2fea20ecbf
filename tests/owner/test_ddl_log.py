"""The owner's readers of logs: opened once, and anew where another log has taken the place."""

from __future__ import annotations

from pathlib import Path

from cdc.changelog import origin
from cdc.changelog.origin import Origin
from cdc.coord.messages import UpstreamInfo
from owner.ddl_log import DdlLogs
from tests.processor.test_ddl_horizon import START, _ddl, _log


def test_a_log_that_was_made_anew_is_read_from_its_begin(tmp_path: Path) -> None:
    folder, upstream = tmp_path / "log", UpstreamInfo(name="u", uri="", create_time_ms=1)
    logs = DdlLogs(lambda _: folder, lambda _: upstream)
    for number in (1, 2):
        with _log(folder) as writer:
            origin.save(folder, Origin(f"log {number}"))
            _ddl(writer, 10 * number)
            writer.commit(START + 100, {})
            log = logs.log("u")
            assert logs.log("u") is log
            assert [ddl.ts - START for ddl in log.ddls(START, START + 100)] == [10 * number]
        if number == 1:
            folder.rename(tmp_path / "before")
            # While there is none it is not given up: it may only be about to be written.
            assert logs.log("u") is log
    logs.forget("u")
