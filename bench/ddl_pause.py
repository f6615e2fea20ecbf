"""``ddl_pause``: do other tables notice a schema change that takes 5 s at the target?

Twenty tables take 10,000 rows/s in all (50 rows a transaction, each of one table), once without and
once with a schema change of one of them. The change is slow at the target only: a session there has
read the table and not ended its transaction, so that the ALTER waits for the table's metadata lock
until the session ends, 5 s after the server first says so. A process of its own asks the target for
the 19 others' rows every 50 ms, as ``mysql_lag`` does: a lag is too long by up to one look. Another
one looks at the changed table every 5 ms: when its new column is there, and when a row is that was
written behind the change; what lies between is too long by one look too, never too short.

``shard_ddl_pause``: do tables of no shard group notice one that waits? The changed table is one of
a group of two, and the other one comes to the change 5 s later.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench import load, ours
from bench.arena import Arena, arena
from bench.figures import Figure
from bench.lag import SKIP_S, Seconds
from bench.mysql import our_side, sink_uri
from bench.settings import Settings
from tests.servers.database import Database

TABLES = 20
ROWS_PER_S = 10_000
PAUSE_S = 5.0
RESUME_S = 0.3
_PER_TRANSACTION = 50
_LOOK_S, _LOOK_AT_CHANGED_S = 0.05, 0.005
# Rows that are asked for at once; a side that is further behind is seen a little later.
_WINDOW = 5_000
_QUIET_S = 60.0
# Ids of a run, far from those of the run before; the row that is written behind the change.
_SPAN = 10_000_000
_MARK = 2_000_000_000
# The first run only warms.
_WARM, _WITHOUT, _WITH = range(3)
_WARM_S = 8.0


@dataclass(frozen=True)
class Lags:
    """Of the 19 tables' rows: Unix time of the client's statement, and seconds until it is seen."""

    sent: Seconds
    lags: Seconds

    def percentiles(self, since: float, until: float = np.inf) -> dict[str, float]:
        """Of rows sent between two Unix times."""
        found = self.lags[(self.sent >= since) & (self.sent < until)]
        if not len(found):
            sent = [float(at) for at in (self.sent.min(), self.sent.max())]
            raise RuntimeError(f"no row was sent in {[since, until]}, but in {sent}")
        p50, p99 = np.percentile(found, [50, 99])
        return {"p50": float(p50), "p99": float(p99), "max": float(found.max()), "rows": len(found)}


def ddl_pause(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """A run without the change, and one with it, on the same servers."""
    return _measured("ddl_pause", settings, _change)


def shard_ddl_pause(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """The same where the change waits for another table of its shard group."""
    rule = f'matcher = ["{_name(0)}", "{_name(TABLES)}"]\ntarget-table = "p00"\n'
    return _measured(
        "shard_ddl_pause",
        settings,
        _change_of_group,
        top='shard-mode = "pessimistic"\n',
        config=f"[[sink.dispatchers]]\n{rule}",
    )


def _measured(
    name: str,
    settings: Settings,
    change: Callable[[Arena], float],
    *,
    top: str = "",
    config: str = "",
) -> tuple[list[Figure], dict[str, Any]]:
    seconds, rate = settings.seconds or 20.0, settings.rows or ROWS_PER_S
    with arena(settings.server, peers=False) as place:
        for server in (place.upstream, place.target):
            server.execute(*(f"CREATE TABLE {_name(n)} LIKE bench.t" for n in range(TABLES)))
        if top:
            place.upstream.execute(f"CREATE TABLE {_name(TABLES)} LIKE bench.t")
        sink = sink_uri(place.target)
        with ours.feeding(
            place.upstream, "ours", sink, tables=("bench.p*",), top=top, config=config
        ) as feed:
            check = our_side(place, feed).check
            _run(place, _WARM, rate, min(_WARM_S, seconds / 3))
            lags, _ = _run(place, _WITHOUT, rate, seconds)
            without = lags.percentiles(lags.sent.min() + SKIP_S)
            check()
            lags, changed = _run(place, _WITH, rate, seconds, change)
            during = lags.percentiles(changed["waits"], changed["ended"])
            check()
    resumed = changed["resumed"] - changed["ended"]
    took = changed["ended"] - changed["waits"]
    print(f"{name}, {TABLES - 1} others, without: {json.dumps(without)}")
    print(f"{name}, {TABLES - 1} others, during {took:.2f} s of ALTER: {json.dumps(during)}")
    print(f"{name}, changed table: first row {resumed:.3f} s after the ALTER's end", flush=True)
    figures = [
        Figure.less(f"{name}_{part}", during[part], "s", "without the change", without[part])
        for part in ("p50", "p99")
    ]
    figures.append(Figure.less(f"{name}_resume", resumed, "s", "target", RESUME_S))
    found = {"without": without, "during": during, "took_s": took, "resume_s": resumed}
    return figures, {name: found}


def _name(number: int) -> str:
    return f"{load.SCHEMA}.p{number:02d}"


def _run(
    place: Arena,
    number: int,
    per_s: int,
    seconds: float,
    change: Callable[[Arena], float] | None = None,
) -> tuple[Lags, dict[str, float]]:
    """One load; with a change of table 0 in its middle, which says when it began to wait."""
    context = multiprocessing.get_context("spawn")
    first, each = number * _SPAN + 1, int(seconds * per_s / TABLES)
    each -= each % _PER_TRANSACTION
    source = {"unix_socket": str(place.upstream.socket), "user": "root"}
    target = {"unix_socket": str(place.target.socket), "user": "root"}
    ends = [context.Pipe(False) for _ in range(3)]
    work = [
        context.Process(target=_read, args=(target, first, each, ends[0][1]), daemon=True),
        context.Process(target=_write, args=(source, first, each, per_s, ends[1][1]), daemon=True),
    ]
    if change is not None:
        words = (target, ends[2][1])
        work.append(context.Process(target=_look_at_changed, args=words, daemon=True))
    for process in (work[0], *work[2:], work[1]):
        process.start()
    changed: dict[str, float] = {}
    if change is not None:
        begun = f"SELECT 1 FROM {_name(1)} WHERE id >= {first} LIMIT 1"
        _until_rows(place.upstream, begun, "no row was written in time")
        time.sleep(SKIP_S)
        changed["waits"] = change(place)
        changed |= _receive(ends[2][0], PAUSE_S + _QUIET_S)
    rate = _receive(ends[1][0], seconds + _QUIET_S)
    print(f"ddl_pause: written at {rate:,.0f} rows/s", flush=True)
    lags: Lags = _receive(ends[0][0], 2 * _QUIET_S)
    for process in work:
        process.join()
    if len(lags.sent) != each * (TABLES - 1):
        raise RuntimeError(f"{len(lags.sent)} of {each * (TABLES - 1)} rows came")
    return lags, changed


def _until_rows(server: Database, query: str, late: str) -> None:
    """Wait until a query has rows; raises TimeoutError with ``late``."""
    deadline = time.monotonic() + _QUIET_S
    while not server.execute(query):
        if time.monotonic() > deadline:
            raise TimeoutError(late)
        time.sleep(0.01)


def _change(place: Arena) -> float:
    """Change table 0; the Unix time at which the target said that the change waits there."""
    table = _name(0)
    with place.target.connect(autocommit=False) as holder, holder.cursor() as held:
        held.execute(f"SELECT id FROM {table} LIMIT 1")
        held.fetchall()
        row = load.row(_MARK)
        place.upstream.execute(
            f"ALTER TABLE {table} ADD COLUMN more INT",
            load.INSERT.replace(" t ", f" {table} ") + row,
        )
        _until_rows(
            place.target,
            "SELECT 1 FROM information_schema.processlist WHERE info LIKE '%ALTER TABLE%more%'"
            " AND state LIKE 'Waiting for table metadata lock%' AND id <> CONNECTION_ID()",
            "the target never said that the schema change waits",
        )
        waits = time.time()
        time.sleep(PAUSE_S)
        holder.rollback()
    return waits


def _change_of_group(place: Arena) -> float:
    """Change table 0, and 5 s later the other one of its group; when it began to wait for it."""
    table, other = _name(0), _name(TABLES)
    row = load.row(_MARK)
    place.upstream.execute(
        f"ALTER TABLE {table} ADD COLUMN more INT", load.INSERT.replace(" t ", f" {table} ") + row
    )
    waits = time.time()
    time.sleep(PAUSE_S)
    place.upstream.execute(f"ALTER TABLE {other} ADD COLUMN more INT")
    return waits


def _receive(connection: Connection, timeout_s: float) -> Any:
    if not connection.poll(timeout_s):
        raise TimeoutError("no result of the ddl_pause measurement in time")
    return connection.recv()


def _write(place: dict[str, str], first: int, each: int, per_s: int, result: Connection) -> None:
    import pymysql

    text = load.row(12345).split(",")
    before, after = ",".join(text[1:5]), ",".join(text[6:])
    with pymysql.connect(**place, autocommit=True) as connection:  # type: ignore[arg-type]
        cursor = connection.cursor()
        # Readers begin first.
        time.sleep(2)
        began, sent = time.time(), 0
        while sent < each * TABLES:
            due = began + sent / per_s
            time.sleep(max(0.0, due - time.time()))
            rounds, table = divmod(sent // _PER_TRANSACTION, TABLES)
            low = first + rounds * _PER_TRANSACTION
            # When it was due: a load that is held up by what it measures would hide the worst.
            stamp = int(due * 1e6)
            values = ",".join(
                f"({i},{before},'t{stamp}',{after}" for i in range(low, low + _PER_TRANSACTION)
            )
            cursor.execute(load.INSERT.replace(" t ", f" {_name(table)} ") + values)
            sent += _PER_TRANSACTION
        result.send(each * TABLES / (time.time() - began))


def _read(place: dict[str, str], first: int, each: int, result: Connection) -> None:
    """Rows of all tables but the first, each when it is seen first."""
    import pymysql

    others = range(1, TABLES)
    sent, lags = np.zeros((TABLES, each)), np.zeros((TABLES, each))
    # The last element is never set, so that there always is a first one unset.
    seen, low = np.zeros((TABLES, each + 1), bool), [0] * TABLES
    last = time.time()
    with pymysql.connect(**place, autocommit=True) as connection:  # type: ignore[arg-type]
        cursor = connection.cursor()
        while min(low[1:]) < each and time.time() - last < _QUIET_S:
            began = time.time()
            cursor.execute(
                " UNION ALL ".join(
                    f"SELECT {n}, id, SUBSTRING(name, 2) FROM {_name(n)} WHERE id >="
                    f" {first + low[n]} AND id < {first + min(low[n] + _WINDOW, each)}"
                    for n in others
                )
            )
            found = cursor.fetchall()
            now = time.time()
            for table, key, stamp in found:
                at = key - first
                if not seen[table, at]:
                    seen[table, at], last = True, now
                    sent[table, at] = int(stamp) / 1e6
                    lags[table, at] = now - sent[table, at]
            for n in others:
                low[n] += int(np.argmin(seen[n, low[n] :]))
            time.sleep(max(0.0, _LOOK_S - (time.time() - began)))
    there = seen[:, :each]
    result.send(Lags(sent[there], lags[there]))


def _look_at_changed(place: dict[str, str], result: Connection) -> None:
    """When the new column was last seen missing, and when the row behind the change was seen."""
    import pymysql

    schema, _, table = _name(0).partition(".")
    column = (
        "SELECT 1 FROM information_schema.columns WHERE column_name = 'more'"
        f" AND table_schema = '{schema}' AND table_name = '{table}'"
    )
    row = f"SELECT 1 FROM {schema}.{table} WHERE id = {_MARK}"
    ended = time.time()
    with pymysql.connect(**place, autocommit=True) as connection:  # type: ignore[arg-type]
        cursor = connection.cursor()
        while not cursor.execute(column):
            ended = time.time()
            time.sleep(_LOOK_AT_CHANGED_S)
        while not cursor.execute(row):
            time.sleep(_LOOK_AT_CHANGED_S)
        result.send({"ended": ended, "resumed": time.time()})
