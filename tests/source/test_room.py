"""Pulling waits for room in the log's budget and on its disk, and goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.changelog.settings import ChangelogSettings
from cdc.source import puller
from cdc.source.commit_pace import CommitPace
from tests.servers.database import Database
from tests.source.pulling import Pulled


def test_what_is_complete_is_committed_while_pulling_waits_for_room(
    database: Callable[..., Database], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is committed can be delivered, and then go."""
    db = database("mysql-8.0")
    db.execute("DROP DATABASE IF EXISTS f", "CREATE DATABASE f", "CREATE TABLE f.t (v LONGTEXT)")
    p = Pulled(db, tmp_path / "log", block_bytes=1 << 16)
    db.execute(*["INSERT INTO f.t VALUES (REPEAT('x', 40000))"] * 100)
    waiting: list[int] = []

    def disk_usage(folder: Path) -> Any:
        if p.writer.last_ts > p.writer.state.last_ts and not p.writer.open_bytes:
            waiting.append(p.writer.last_ts)
        return SimpleNamespace(free=0 if waiting else 1 << 50)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    monkeypatch.setattr(puller, "_BUDGET_S", 0)
    # As while a commit is on its way.
    monkeypatch.setattr(CommitPace, "due", lambda *_: False)
    monkeypatch.setattr(CommitPace, "rest_s", lambda *_: 10.0)
    with p:
        p.until(lambda: p.statuses[-1:] != [] and p.statuses[-1].state == "paused")
        p.until(lambda: p.writer.state.last_ts == waiting[0])
        assert p.rows()


def test_disk_budget_pauses_and_resumes(database: Callable[..., Database], tmp_path: Path) -> None:
    db = database("mysql-8.0")
    db.execute("DROP DATABASE IF EXISTS f", "CREATE DATABASE f", "CREATE TABLE f.t (v LONGTEXT)")
    log = {"disk_budget_bytes": 200_000}
    with Pulled(db, tmp_path / "log", log=log, heartbeat_s=0.2) as p:
        db.execute("INSERT INTO f.t VALUES (REPEAT('x', 300000))")
        p.until(lambda: p.statuses[-1].state == "paused")
        error = p.statuses[-1].error
        assert error is not None
        assert error.code == "TG:ErrDiskBudget"
        db.execute("INSERT INTO f.t VALUES ('later')")
        p.pause()
        p.log_settings = ChangelogSettings()
        p.resume()
        p.caught_up()
        assert p.rows() == 2
