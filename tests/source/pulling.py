"""A registered upstream with its puller thread, for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from cdc.base.clock import SystemClock
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.binlog.query import Query
from cdc.changelog import origin
from cdc.changelog.index import Runs
from cdc.changelog.origin import Origin
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import Anchor, UpstreamInfo, UpstreamStatus
from cdc.source.position import UpstreamPosition
from cdc.source.puller import Puller
from cdc.source.registration import register
from cdc.source.settings import SourceSettings
from cdc.source.snapshot import current_position
from tests.servers.database import Database
from tests.waiting import PATIENCE

CLOCK = SystemClock()


class Pulled:
    """``with Pulled(db, folder) as p``: everything that happens inside is pulled."""

    LOG = ChangelogSettings()

    def __init__(
        self,
        db: Database,
        folder: Path,
        *,
        uri: str = "",
        ca: str | None = None,
        start: str | None = None,
        log: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.db, self.folder = db, folder
        self.settings = SourceSettings(**{"backoff_max_s": 0.5, **settings})
        self.log_settings = ChangelogSettings(**(log or {}))
        asked = UpstreamInfo(name="u", uri=uri or db.uri(), ca=ca)
        with LogWriter.open(folder, self.log_settings, CLOCK) as writer:
            self.info = register(asked, writer, self.settings, CLOCK, start)
        self.statuses: list[UpstreamStatus] = []
        self.error: BaseException | None = None

    def __enter__(self) -> Pulled:
        self.resume()
        return self

    def anew(self, folder: Path, begun: Origin) -> Pulled:
        """Another log of the same upstream in the place of this one, from where this one began."""
        with closing(ChangeLog.open(self.folder)) as log:
            ts, snapshot = log.state.first_ts, log.snapshot_at(log.state.first_ts)
        return self._begun_at(folder, begun, ts, snapshot, self.info.start)

    def at_anchor(
        self, folder: Path, anchor: Anchor, schema: dict[str, Any], begun: Origin | None = None
    ) -> Pulled:
        """Another log of the same upstream, which begins at an anchor, told what that says."""
        begun = begun or Origin.new(prepared=anchor.prepared)
        snapshot = {**schema, "ts": anchor.ts}
        return self._begun_at(folder, begun, anchor.ts, snapshot, anchor.position)

    def _begun_at(
        self,
        folder: Path,
        begun: Origin,
        ts: Ts,
        snapshot: dict[str, Any],
        position: dict[str, Any],
    ) -> Pulled:
        made = copy(self)
        made.folder, made.statuses, made.error = folder, [], None
        with LogWriter.open(folder, self.log_settings, CLOCK) as writer:
            origin.save(folder, begun)
            writer.save_snapshot(ts, snapshot)
            writer.begin(ts, position)
        return made

    def resume(self) -> None:
        self.writer = LogWriter.open(self.folder, self.log_settings, CLOCK)
        self.stop = threading.Event()
        begun = origin.load(self.folder) or Origin.new()
        self.puller = Puller(
            self.info,
            self.writer,
            self.settings,
            CLOCK,
            self.statuses.append,
            begun,
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.puller.run(self.stop)
        except BaseException as error:
            self.error = error

    def pause(self) -> None:
        self.stop.set()
        self.thread.join(20)
        assert not self.thread.is_alive()
        self.writer.close()

    def __exit__(self, *_: object) -> None:
        self.pause()

    def caught_up(self, timeout_s: float = 60) -> None:
        with self.db.connect() as connection:
            position = current_position(connection, self.info.server_kind)
        self.until(
            lambda: UpstreamPosition.from_dict(self.writer.state.position).covers(
                position, self.info.server_kind
            ),
            timeout_s,
        )

    def until(self, done: Callable[[], bool], timeout_s: float = 30) -> None:
        end = time.monotonic() + PATIENCE * timeout_s
        while not done():
            if self.error is not None and not self.thread.is_alive():
                raise self.error
            assert time.monotonic() < end, (self.statuses[-1:], self.writer.state.position)
            time.sleep(0.02)

    def failed(self, timeout_s: float = 30) -> BaseException:
        self.thread.join(PATIENCE * timeout_s)
        assert self.error is not None, self.statuses[-1:]
        return self.error

    def runs(self) -> tuple[ChangeLog, Runs]:
        log = ChangeLog.open(self.folder)
        state = log.refresh()
        return log, log.runs(Position(state.first_ts), Position(state.resolved_ts))

    def rows(self) -> int:
        log, runs = self.runs()
        log.verify(runs)
        log.close()
        return int(runs.rows[runs.kind == 1].sum())

    def events(self) -> list[bytes]:
        """Events of all segments, without the files' own heads."""
        found: list[bytes] = []
        log = ChangeLog.open(self.folder)
        for info in log.refresh().segments():
            data = log.segment(info.number).tobytes()
            at = 4
            while at < len(data):
                length = int.from_bytes(data[at + 9 : at + 13], "little")
                if data[at + 4] != 15:
                    found.append(data[at : at + length])
                at += length
        log.close()
        return found


def ddl_texts(p: Pulled) -> list[str]:
    """Texts of the schema changes in the log, in its order."""
    log = ChangeLog.open(p.folder)
    state = log.refresh()
    ddls = log.ddls(state.first_ts, state.resolved_ts)
    events = [bytes(log.event(ddls.slice(i, i + 1))) for i in range(len(ddls))]
    log.close()
    return [Query.parse(e[19:-4]).sql for e in events]


def file_events(path: Path, start: int) -> list[bytes]:
    """Events of a server's own binlog file from an offset, without those about the file."""
    data = path.read_bytes()
    at, found = max(start, 4), []
    while at < len(data):
        length = int.from_bytes(data[at + 9 : at + 13], "little")
        # 160: annotations, which we do not ask for as nothing needs them
        if data[at + 4] not in (3, 4, 15, 35, 160, 161, 163):
            found.append(data[at : at + length])
        at += length
    return found


def ordered(runs: Runs) -> bool:
    return bool((np.diff(runs.commit_ts) >= 0).all())
