"""Writing small logs for tests: transactions of valid events, and what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cdc.changelog.index import LAST_OF_TRANSACTION, RunKind, Runs
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from tests.changelog.events import format_description, query, rows, table_map


class StillClock:
    """A clock that a test moves."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


def open_log(folder: Path, clock: StillClock | None = None, **settings: Any) -> LogWriter:
    """A writer with small defaults; the format is set."""
    values = {"free_space_reserve_bytes": 0} | settings
    writer = LogWriter.open(folder, ChangelogSettings(**values), clock or StillClock())
    writer.set_format(format_description())
    return writer


def rows_event(table: int, payload: bytes) -> bytes:
    """TABLE_MAP and rows event, the bytes of one run."""
    return table_map(table, f"t{table}") + rows(table, payload)


def dml(
    writer: LogWriter,
    ts: int,
    parts: list[tuple[int, int]],
    *,
    tag: bytes = b"",
    sequence: int = -1,
    source: int = -1,
) -> None:
    """Append one transaction; each part is (table, rows) and one run.

    ``sequence`` names it, with the number of its GTID's ``source``.
    """
    data = b""
    offsets, lengths, firsts = [], [], []
    row = 0
    for table, count in parts:
        body = rows_event(table, b"%d/%d" % (ts, row) + tag)
        offsets.append(len(data))
        lengths.append(len(body))
        firsts.append(row)
        data += body
        row += count
    data += query("COMMIT")
    count = len(parts)
    runs = Runs.build(
        count,
        commit_ts=ts,
        flags=[0] * (count - 1) + [LAST_OF_TRANSACTION],
        table=[t for t, _ in parts],
        offset=offsets,
        length=lengths,
        first_row=firsts,
        rows=[n for _, n in parts],
        gtid_seq=sequence,
        gtid_source=source,
    )
    writer.append(data, runs)


def ddl(writer: LogWriter, ts: int, text: str, *, sequence: int = -1, source: int = -1) -> None:
    """Append one DDL. ``sequence`` names it, with the number of its GTID's ``source``."""
    data = query(text)
    runs = Runs.build(
        1,
        commit_ts=ts,
        kind=RunKind.DDL,
        flags=1,
        length=len(data),
        gtid_seq=sequence,
        gtid_source=source,
    )
    writer.append(data, runs)


def prepare(writer: LogWriter, xid: str, table: int = 7, payload: bytes = b"") -> None:
    """Append an XA transaction of three rows, prepared."""
    rows, end = rows_event(table, payload or b"prepared " + xid.encode()), query("XA PREPARE")
    runs = Runs.build(
        2,
        kind=RunKind.PREPARE,
        table=[table, -1],
        offset=[0, len(rows)],
        length=[len(rows), len(end)],
        rows=[3, 0],
        xid=writer.xid_id(xid),
    )
    writer.append(rows + end, runs)


def commit_prepared(
    writer: LogWriter, xid: str, ts: int, *, sequence: int = -1, source: int = -1
) -> None:
    """Append its commit; ``sequence`` and ``source`` as of :func:`dml`."""
    number = writer.xid_id(xid)
    runs = writer.prepared(number)
    runs.commit_ts[:], runs.gtid_source[:], runs.gtid_seq[:] = ts, source, sequence
    runs.flags[-1:] |= LAST_OF_TRANSACTION
    end = query("XA COMMIT")
    done = Runs.build(1, kind=RunKind.COMMIT, commit_ts=ts, length=len(end), xid=number)
    writer.append(end, Runs.concat([runs, done]))
