"""Run as a program under NUMBA_BOUNDSCHECK=1: mutated events end in errors or results."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from cdc.base.errors import DefiniteError
from cdc.schema.parse import parse_create_table
from sink.codec.arrow import record_batch
from sink.codec.canal import CanalCodec
from sink.codec.rows import Located
from sink.codec.settings import CanalSettings
from tests.codec.binlog_rows import BUILD_MS, runs_of


def main(folder: Path, rounds: int) -> None:
    """``folder`` has ``data.binlog`` and one ``<schema>.<table>.sql`` for each table."""
    data = (folder / "data.binlog").read_bytes()
    tables = {}
    for path in sorted(folder.glob("*.sql")):
        schema = path.stem.split(".")[0]
        tables[path.stem] = parse_create_table(path.read_text(), schema=schema)
    runs, entries = runs_of(data, tables)
    plans = CanalCodec(CanalSettings()).plan_set(entries)
    matrix = np.array(runs, np.int64)
    random = np.random.default_rng(11)
    errors = 0
    for _ in range(rounds):
        changed = np.frombuffer(data, np.uint8).copy()
        run = matrix[random.integers(len(matrix))]
        for _ in range(random.integers(1, 6)):
            changed[run[0] + 19 + random.integers(run[1] - 19)] = random.integers(256)
        try:
            located = Located(changed, run.reshape(1, -1), 1000, plans, "fuzz")
            order = np.arange(len(located.refs), dtype=np.int64)
            for batch in located.batches(order, BUILD_MS):
                assert batch.count > 0
            columns = record_batch(located, order, int(run[2]), no_day_as_null=True)
            assert columns.num_rows == len(order)
        except DefiniteError:
            errors += 1
    print(f"{rounds} rounds, {errors} errors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
