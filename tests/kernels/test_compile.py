"""What a process loads of the kernels, and when."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
from numba import njit

from cdc.kernels.crc import crc32


def _loaded_by(statements: str) -> dict[str, list[str]]:
    """Names of what is loaded, and of the entry points that are not, in a process of its own."""
    code = (
        f"import json; {statements}; from cdc.kernels.compile import _all; "
        "names = {f'{k.__module__}.{k.__name__}': k for k in _all}; "
        "loaded = [name for name, k in names.items() if k._dispatcher]; "
        "late = [name for name, k in names.items() if k.entry and not k._dispatcher]; "
        "print(json.dumps({'loaded': loaded, 'late': late}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_a_capture_loads_what_it_calls() -> None:
    loaded = _loaded_by("import cdc.server.capture, cdc.api.serve")
    assert loaded["loaded"] == []
    assert len(loaded["late"]) > 40
    called = _loaded_by("from cdc.kernels.crc import crc32, np; crc32(np.zeros(4, 'u1'), 0, 4, 0)")
    assert called["loaded"] == ["cdc.kernels.crc.crc32"]


def test_workers_are_forked_with_every_entry_point_loaded() -> None:
    loaded = _loaded_by("import processor.spark.task as t; t.preload()")
    assert loaded["late"] == []
    assert "cdc.kernels.canal.encode" in loaded["loaded"]


def test_what_is_loaded_late_can_be_called_by_other_kernels() -> None:
    @njit
    def twice(buf):  # type: ignore[no-untyped-def]
        return crc32(buf, 0, 4, crc32(buf, 0, 4, 0))

    zeros = np.zeros(4, np.uint8)
    assert twice(zeros) == crc32(zeros, 0, 4, crc32(zeros, 0, 4, 0))
