"""What the golden files have: ``python -m tests.formats.sample FOLDER`` writes such a log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from cdc.base.position import Position, TransactionName
from cdc.changelog import origin
from cdc.changelog.origin import Origin, Pin
from cdc.changelog.reader import ChangeLog
from tests.changelog.logs import StillClock, commit_prepared, ddl, dml, open_log, prepare

BEGIN, END = 100, 160
_SOURCE = "0-1"
_XIDS = ("X'6131',X'',1", "X'6232',X'30',7")


def write_log(folder: Path) -> None:
    """Three segments: rows, a statement, XA transactions of which one stays prepared."""
    with open_log(folder, StillClock(), segment_bytes=4096) as writer:
        pin = Pin(TransactionName(105, _SOURCE, 7, 1), 107)
        origin.save(
            folder, Origin("0f1e2d3c4b5a69788796a5b4c3d2e1f0", 90, (pin,), frozenset(_XIDS))
        )
        writer.save_snapshot(BEGIN, {"ts": BEGIN, "tables": []})
        writer.begin(BEGIN, {"file": "bin.000001", "pos": 4})
        orders = writer.table_id("shop", "orders", b"\x00" * 6 + b"map of orders")
        items = writer.table_id("shop", "itéms", b"\x00" * 6 + b"map of items")
        source = writer.source_id(_SOURCE)
        dml(writer, 105, [(orders, 2), (items, 1)], sequence=7, source=source)
        ddl(writer, 110, "CREATE TABLE shop.b (id INT)", sequence=8, source=source)
        writer.commit(112, {"file": "bin.000001", "pos": 1000})
        for xid in _XIDS:
            prepare(writer, xid, orders, b"prepared")
        for ts in range(120, 150):
            dml(writer, ts, [(items, 1)], tag=b"x" * 200, sequence=ts, source=source)
        writer.commit(149, {"file": "bin.000001", "pos": 9000})
        commit_prepared(writer, _XIDS[0], 150, sequence=150, source=source)
        writer.commit(END, {"file": "bin.000002", "pos": 4})


def read_log(folder: Path) -> dict[str, Any]:
    """What a log says to whoever reads it, as JSON."""
    log = ChangeLog.open(folder)
    state, made = log.state, origin.load(folder)
    assert made is not None
    runs = log.runs(Position(BEGIN), Position(END))
    log.verify(runs)
    rows = [[int(value) for value in row] for row in np.array(runs.columns()).T]
    names = [log.transaction_at(ts) for ts in (105, 112, 130, END)]
    return {
        "first_ts": state.first_ts,
        "resolved_ts": state.resolved_ts,
        "position": state.position,
        "segments": [[s.number, s.data, s.first_ts, s.last_ts, s.ddls] for s in state.segments()],
        "prepared_from": state.prepared_from,
        "tables": [[t.schema, t.name, t.map_body.hex()] for _, t in sorted(log.tables.items())],
        "runs": rows,
        "events": log.event(runs.slice(0, 1)).hex(),
        "statements": [[ts, event[19:-4].hex()] for ts, event in log.statements(BEGIN, END)],
        "snapshot": log.snapshot_at(BEGIN),
        "names": [name and name.to_list() for name in names],
        "origin": [made.log, made.floor, [[*p.name.to_list(), p.floor] for p in made.pins]],
        "prepared": sorted(made.prepared),
    }


if __name__ == "__main__":
    write_log(Path(sys.argv[1]))
