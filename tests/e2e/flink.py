"""Tables as Flink reads them of topics."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.e2e import jvm

_RUNNER = Path(__file__).with_name("FlinkSql.java")


def rows_of(sql: str, folder: Path) -> dict[str, list[str | None]]:
    """The rows that a SELECT leaves, by their first column; all values are texts."""
    script = folder / "script.sql"
    script.write_text(sql)
    done = subprocess.run(
        jvm.command("flink-2.1", str(_RUNNER), str(script)),
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    rows: dict[str, list[str | None]] = {}
    for line in done.stdout.splitlines():
        kind, *values = json.loads(line)
        if kind in ("+I", "+U"):
            rows[values[0]] = values
        else:
            assert rows.pop(values[0])[0] == values[0]
    return rows
