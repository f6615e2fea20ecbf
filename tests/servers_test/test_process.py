"""Signals to child processes."""

from __future__ import annotations

import mmap
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.servers import process
from tests.waiting import until

_BUSY = """
import hashlib, mmap, sys, threading
with open(sys.argv[1], "r+b") as file:
    shared = mmap.mmap(file.fileno(), 8)
data = bytes(1 << 16)
def work(n):
    while True:
        hashlib.sha256(data).digest()
        shared[n] = (shared[n] + 1) % 256
for n in range(8):
    threading.Thread(target=work, args=(n,)).start()
"""


def test_who_is_stopped_does_nothing_more(tmp_path: Path) -> None:
    """All its threads, though there are more of them than processors."""
    counts = tmp_path / "counts"
    counts.write_bytes(bytes(8))
    child = subprocess.Popen([sys.executable, "-c", _BUSY, str(counts)])
    try:
        with counts.open("rb") as file, mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ) as shared:
            until(lambda: all(shared[:]), "all threads work")
            for _ in range(20):
                process.send(child.pid, signal.SIGSTOP)
                stopped = shared[:]
                time.sleep(0.02)
                assert shared[:] == stopped
                process.send(child.pid, signal.SIGCONT)
                until(lambda stopped=stopped: shared[:] != stopped, "they go on")
    finally:
        child.kill()
        child.wait()
