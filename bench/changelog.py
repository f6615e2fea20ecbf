"""Micro-benchmark of the change log: ``python -m bench.changelog`` (a few seconds)."""

from __future__ import annotations

import statistics
import struct
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cdc.base.clock import SystemClock
from cdc.base.position import END, START
from cdc.changelog.index import LAST_OF_TRANSACTION, Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.kernels.crc import crc32


def _event(kind: int, body: bytes) -> bytes:
    head = struct.pack("<IBIIIH", 0, kind, 1, len(body) + 23, 0, 0) + body
    return head + struct.pack("<I", zlib.crc32(head))


def _best(work: Callable[[], object], times: int = 5) -> float:
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        took.append(time.perf_counter() - begun)
    return min(took)


def _fill(writer: LogWriter, transactions: int, each: bytes, group: int) -> tuple[float, float]:
    block = each * group
    append_s = commit_s = 0.0
    for first in range(0, transactions, group):
        runs = Runs.build(
            group,
            commit_ts=np.arange(first + 1, first + group + 1),
            flags=LAST_OF_TRANSACTION,
            table=0,
            offset=np.arange(group) * len(each),
            length=len(each),
            rows=1,
        )
        begun = time.perf_counter()
        writer.append(block, runs)
        appended = time.perf_counter()
        writer.commit(first + group, {"at": first})
        append_s += appended - begun
        commit_s += time.perf_counter() - appended
    return append_s, commit_s


def main() -> None:
    """Print throughput of CRC, append and verification, and planning times."""
    noise = np.random.default_rng(1).integers(0, 256, 64 << 20, np.uint8)
    took = _best(lambda: crc32(noise, 0, noise.size, np.uint32(0)))
    print(f"crc32                     {noise.size / took / 1e9:8.2f} GB/s")
    each = _event(19, b"m" * 40) + _event(30, b"r" * 250)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = ChangelogSettings(free_space_reserve_bytes=0)
        writer = LogWriter.open(folder, settings, SystemClock())
        writer.set_format(_event(15, bytes(98) + b"\x01"))
        count = 250_000
        append_s, commit_s = _fill(writer, count, each, 5_000)
        size = count * len(each)
        print(f"append, 1-row runs        {size / append_s / 1e9:8.2f} GB/s")
        print(f"group commit              {commit_s / (count / 5_000) * 1e3:8.2f} ms")
        log = ChangeLog.open(folder)
        begun = time.perf_counter()
        runs = log.runs(START, END)
        print(f"load and plan {count} runs {(time.perf_counter() - begun) * 1e3:8.2f} ms")
        took = _best(lambda: log.runs(START, END))
        print(f"plan {count} runs         {took * 1e3:8.2f} ms")
        took = _best(lambda: log.runs(START, END, max_bytes=32 << 20, tables={0, 3}))
        print(f"plan 32 MiB of them       {took * 1e3:8.2f} ms")
        took = _best(lambda: log.verify(runs), 1)
        print(f"verify, first time        {size / took / 1e9:8.2f} GB/s")
        print(f"verify, again             {_best(lambda: log.verify(runs)) * 1e3:8.2f} ms")
        idle = [_best(log.refresh, 1) for _ in range(200)]
        print(f"refresh, nothing new      {statistics.median(idle) * 1e6:8.2f} us")
        begun = time.perf_counter()
        for _ in range(4):
            writer.append(noise, Runs.empty())
        took = time.perf_counter() - begun
        print(f"append, large blocks      {4 * noise.size / took / 1e9:8.2f} GB/s with sync")
        writer.close()


if __name__ == "__main__":
    main()
