"""``mysql_lag_p50`` and ``mysql_lag_p99``: commit to visible row at 10,000 rows/s.

Each row carries the client's clock from just before its statement was sent (50 rows a statement and
transaction), so the statement's own execution and commit count as lag too. A process of its own
asks the target for rows that it has not seen, every 5 ms, each time in a new snapshot, and looks
at its clock when it has the answer: a lag is too long by up to one look, never too short. The first
five seconds are left out. The peer is the target server's own replica, in the same way, afterwards.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from itertools import chain
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench import lag, load, ours, replica
from bench.arena import Arena, arena, marks, wait_marks
from bench.figures import Figure
from bench.mysql import Side, our_side, peer_side, sink_uri
from bench.settings import Settings

ROWS_PER_S = 10_000
_LOOK_S = 0.005
# Rows that are asked for at once; a side that is further behind is seen a little later.
_WINDOW = 20_000
_QUIET_S = 60.0
_WARM_ROWS = 200_000


def mysql_lag(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """A minute of steady rows for each side, each on servers of its own."""
    seconds = settings.seconds or 60.0
    with (
        arena(settings.server, peers=False) as place,
        ours.feeding(place.upstream, "ours", sink_uri(place.target)) as feed,
    ):
        mine = _run(place, our_side(place, feed), seconds)
        kind = place.upstream.kind
    found = {"ours": mine}
    if settings.peers:
        with arena(settings.server) as place:
            side = peer_side(place)
            assert side is not None
            found["replica"] = _run(place, side, seconds)
    figures = []
    for part in ("p50", "p99"):
        name = f"mysql_lag_{part}"
        if settings.peers:
            title = replica.title(kind, settings.server)
            figures.append(Figure.less(name, mine[part], "s", title, found["replica"][part]))
        else:
            figures.append(Figure(name, round(mine[part], 4), "s"))
    return figures, {"mysql_lag": found}


def _run(place: Arena, side: Side, seconds: float) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    rows = int(seconds * ROWS_PER_S)
    load.run(place.upstream, chain(load.bulk(_WARM_ROWS), marks()))
    side.start()
    wait_marks(side.server, side.check)
    for server in (place.upstream, side.server):
        load.empty(server)
    source = {"unix_socket": str(place.upstream.socket), "user": "root"}
    target = {"unix_socket": str(side.server.socket), "user": "root"}
    here, there = context.Pipe(False)
    reader = context.Process(target=_read, args=(target, rows, there), daemon=True)
    mine, its = context.Pipe(False)
    words = (source, rows, ROWS_PER_S, its)
    writer = context.Process(target=lag.write, args=words, daemon=True)
    reader.start()
    time.sleep(2)
    writer.start()
    written = lag.receive(mine, seconds + 60)
    lag.check_offered(written, ROWS_PER_S)
    result = lag.receive(here, 2 * _QUIET_S)
    writer.join()
    reader.join()
    side.check()
    if result["seen"] != rows:
        raise RuntimeError(f"{side.name}: {result['seen']:.0f} of {rows} rows came")
    print(
        f"mysql_lag {side.name}: at {written['rows_per_s']:,.0f} rows/s, {json.dumps(result)}",
        flush=True,
    )
    return result | written


def _read(place: dict[str, str], rows: int, result: Connection) -> None:
    import pymysql

    lags, sent = np.zeros(rows), np.zeros(rows)
    seen = np.zeros(rows + 1, bool)
    low, last = 0, time.time()
    with pymysql.connect(**place, database=load.SCHEMA, autocommit=True) as connection:  # type: ignore[arg-type]
        cursor = connection.cursor()
        while low < rows and time.time() - last < _QUIET_S:
            began = time.time()
            first = lag.FIRST_ID + low
            cursor.execute(
                f"SELECT id, SUBSTRING(name, 2) FROM {load.TABLE}"
                f" WHERE id >= {first} AND id < {first + _WINDOW}"
            )
            found = cursor.fetchall()
            now = time.time()
            for key, stamp in found:
                at = key - lag.FIRST_ID
                if not seen[at]:
                    seen[at], last = True, now
                    sent[at] = int(stamp) / 1e6
                    lags[at] = now - sent[at]
            # The last element is never set, so that there always is a first one unset.
            low += int(np.argmin(seen[low:]))
            time.sleep(max(0.0, _LOOK_S - (time.time() - began)))
    there = seen[:rows]
    result.send(lag.percentiles(lags[there], sent[there]) | {"seen": int(there.sum())})
