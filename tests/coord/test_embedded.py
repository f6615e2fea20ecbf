"""What only the embedded store promises: durability over kill -9, and privacy of its file."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

from cdc.base.clock import SystemClock
from cdc.coord.embedded import EmbeddedStore

_WRITER = """
import sys
from pathlib import Path
from cdc.base.clock import SystemClock
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore
store = EmbeddedStore(Path(sys.argv[1]), SystemClock())
i = int(store.get("/n").value) if store.get("/n") else 0
while True:
    i += 1
    store.txn([], [Put("/n", str(i).encode()), Put("/m", str(i).encode())], durable=i % 7 == 0)
    print(i, flush=True)
"""


def test_every_acknowledged_write_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "meta.db"
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(150):
            line = writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged = [line, *writer.stdout.read().splitlines(keepends=True)]
        writer.wait()
        complete = [int(a) for a in acknowledged if a.endswith("\n")]
        store = EmbeddedStore(path, SystemClock())
        n, m = store.get("/n"), store.get("/m")
        assert n is not None
        assert m is not None
        assert n.value == m.value
        assert int(n.value) >= complete[-1]
        assert store.revision() == n.mod_revision
        store.close()


def test_its_files_are_private(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "store" / "meta.db", SystemClock())
    for file in (tmp_path / "store").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    store.close()
