"""A process that pulls until it is killed: ``python -m tests.source.pull_child FOLDER``."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from cdc.base.clock import SystemClock
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import UpstreamInfo
from cdc.source.puller import Puller
from cdc.source.settings import SourceSettings

folder = Path(sys.argv[1])
info = UpstreamInfo.model_validate_json((folder / "info.json").read_text())
clock = SystemClock()
writer = LogWriter.open(folder / "log", ChangelogSettings(), clock)
settings = SourceSettings(group_commit_ms=5, heartbeat_s=0.2)
Puller(info, writer, settings, clock, lambda status: None).run(threading.Event())
