"""What a reader holds in memory goes with what the log has collected, and what is behind it."""

from __future__ import annotations

import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from cdc.base.position import Position
from cdc.changelog import index_cache
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter
from tests.changelog.logs import StillClock, dml, open_log
from tests.seeds import drawn

SEGMENT = 65536
ROUNDS = 6


def _write(writer: LogWriter, first: int) -> int:
    """About two segments of transactions; the last ts."""
    for ts in range(first, first + 1000):
        dml(writer, ts, [(1, 1)])
    writer.commit(first + 999, {})
    return first + 999


def _read(log: ChangeLog, above: int, upto: int) -> int:
    """Look at every byte of the rows in ``(above, upto]``; how many there are."""
    log.refresh()
    runs = log.runs(Position(above), Position(upto))
    log.verify(runs)
    return len(runs)


def _mapped(folder: Path) -> list[str]:
    """Segments that the kernel says this process has mapped, those that are deleted too."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in lines if f"{folder}/" in line})


def _index_bytes() -> int:
    """Bytes that readers' indexes hold in this process, by Python's own account.

    By who asked for them: the writer beside us makes index rows as well, and they come and go.
    """
    readers = tracemalloc.Filter(True, index_cache.__file__, all_frames=True)
    held = tracemalloc.take_snapshot().filter_traces([readers])
    return sum(s.size for s in held.statistics("filename"))


def _collect(writer: LogWriter, log: ChangeLog, ts: int) -> None:
    assert writer.collect(ts)
    log.refresh()


def _pass(_: LogWriter, log: ChangeLog, ts: int) -> None:
    log.forget_below(ts)


_FORGETTING = {"collected": _collect, "passed": _pass}


@pytest.mark.parametrize("how", drawn(list(_FORGETTING)))
def test_what_is_behind_a_reader_is_not_held(tmp_path: Path, how: str) -> None:
    tracemalloc.start(3)
    try:
        with open_log(tmp_path, StillClock(), segment_bytes=SEGMENT, keep_s=0) as writer:
            writer.begin(1, {})
            with closing(ChangeLog.open(tmp_path)) as log:
                before, bytes_at = 1, []
                for done in range(ROUNDS):
                    last = _write(writer, before + 1)
                    assert _read(log, before, last) == 1000
                    _FORGETTING[how](writer, log, last)
                    before = last
                    if done in (1, ROUNDS - 1):
                        bytes_at.append(_index_bytes())
                    assert len(_mapped(tmp_path)) <= 1
                # One round's index is what may be held, however many there were.
                assert 0 < bytes_at[1] < 2 * bytes_at[0]
    finally:
        tracemalloc.stop()


def test_what_was_passed_is_read_again_where_it_is_asked_for(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=SEGMENT) as writer:
        writer.begin(1, {})
        last = _write(writer, 2)
        with closing(ChangeLog.open(tmp_path)) as log:
            assert _read(log, 1, last) == 1000
            log.forget_below(last)
            assert _read(log, 1, last) == 1000
