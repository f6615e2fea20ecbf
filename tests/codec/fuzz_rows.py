"""Run as a program under NUMBA_BOUNDSCHECK=1: mutated events end in errors or results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from cdc.base.errors import DefiniteError
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.rows.storage import ColumnTypeNotSupported
from cdc.schema.parse import parse_create_table
from sink.codec.canal.codec import CanalCodec
from sink.codec.canal.settings import CanalSettings
from sink.codec.contract import EncodeLimits, Framing, MessageCodec
from sink.codec.debezium.codec import DebeziumCodec
from sink.codec.debezium.settings import DebeziumSettings
from sink.codec.maxwell.codec import MaxwellCodec
from sink.codec.maxwell.settings import MaxwellSettings
from tests.codec.binlog_rows import BUILD_MS, runs_of

_CODECS: dict[str, Callable[[], MessageCodec[Any]]] = {
    "canal": lambda: CanalCodec(CanalSettings()),
    "debezium": lambda: DebeziumCodec(DebeziumSettings(name="fuzz")),
    "maxwell": lambda: MaxwellCodec(MaxwellSettings()),
}
CODECS = tuple(_CODECS)


def main(folder: Path, rounds: int, name: str) -> None:
    """``folder`` has ``data.binlog`` and one ``<schema>.<table>.sql`` for each table."""
    data = (folder / "data.binlog").read_bytes()
    tables = {}
    for path in sorted(folder.glob("*.sql")):
        schema = path.stem.split(".")[0]
        tables[path.stem] = parse_create_table(path.read_text(), schema=schema)
    runs, entries = runs_of(data, tables)
    codec = _CODECS[name]()
    planned: dict[int, Any] = {}
    for number, entry in enumerate(entries):
        with suppress(ColumnTypeNotSupported):
            planned[number] = codec.plan([entry], codec.no_tables)
    assert len(planned) > len(entries) // 2
    matrix = np.array([run for run in runs if run[L.RUN_PLAN] in planned], np.int64)
    random = np.random.default_rng(11)
    errors = 0
    for _ in range(rounds):
        changed = np.frombuffer(data, np.uint8).copy()
        run = matrix[random.integers(len(matrix))]
        for _ in range(random.integers(1, 6)):
            changed[run[0] + 19 + random.integers(run[1] - 19)] = random.integers(256)
        one, plan = run.reshape(1, -1).copy(), planned[run[L.RUN_PLAN]]
        one[0, L.RUN_PLAN] = 0
        try:
            located = RowBatch(changed, one, 1000, plan.plans, "fuzz")
            order = np.arange(len(located.refs), dtype=np.int64)
            for batch in codec.encode(
                located, plan, order, BUILD_MS,
                limits=EncodeLimits(), framing=Framing.RECORDS, buffer=None,
            ):  # fmt: skip
                assert batch.records >= batch.rows > 0
        except DefiniteError:
            errors += 1
    print(f"{rounds} rounds, {errors} errors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
