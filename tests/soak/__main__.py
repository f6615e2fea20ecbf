"""``python -m tests.soak``: the last line is the verdict, the exit code says it again."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

# Kernels come out of the cache that set-up filled; the server inherits this.
os.environ.setdefault("NUMBA_CACHE_DIR", os.path.expanduser("~/.cache/tidegate/numba"))

from tests.soak import ddl, run, to_mysql
from tests.soak.plan import Plan

_SINKS = {"kafka": run.soak, "mysql": to_mysql.soak}
_DDL_MINUTES = 10.0


def main() -> int:
    """Soak as the arguments, or ``SINK``, ``KILLS``, ``MINUTES`` and ``DDL`` outside, say."""
    given = os.environ
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    sink = given.get("SINK") or "kafka"
    parser.add_argument("--sink", choices=sorted(_SINKS), default=sink)
    parser.add_argument("--kills", type=int, default=int(given.get("KILLS") or 10))
    parser.add_argument("--minutes", type=float, default=float(given.get("MINUTES") or 0))
    parser.add_argument("--seed", type=int, default=int(given.get("SEED") or 1))
    parser.add_argument("--rate", type=float, default=3000, help="row changes a second")
    parser.add_argument("--server", default="mariadb-11.4", help="upstream (and target)")
    parser.add_argument(
        "--without-ledger",
        action="store_true",
        help="negative control: the ledger does not do its work, which must be noticed",
    )
    parser.add_argument("--ddl", action="store_true", default=bool(given.get("DDL")))
    parser.add_argument("--upstream", default=given.get("UPSTREAM"), help="of --ddl; else both")
    parser.add_argument(
        "--without-barrier",
        action="store_true",
        help="negative control of --ddl: no table waits at its schema change",
    )
    chosen = parser.parse_args()
    plan = Plan(
        chosen.kills,
        chosen.minutes or (_DDL_MINUTES if chosen.ddl else 0),
        chosen.seed,
        chosen.rate,
        chosen.server,
        chosen.without_ledger,
        without_barrier=chosen.without_barrier,
    )
    if chosen.upstream:
        plan = replace(plan, upstreams=(chosen.upstream,))

    def say(line: str) -> None:
        print(line, flush=True)

    if chosen.sink not in _SINKS:  # a default out of the environment is not checked
        parser.error(f"no such sink: {chosen.sink}; there are {', '.join(_SINKS)}")
    result = (ddl.soak if chosen.ddl else _SINKS[chosen.sink])(plan, say)
    for line in (*result.lines, *result.faults):
        say(line)
    shown = result.verdict.lines()
    counts = next(line for line in shown if line.startswith("lost "))
    for line in shown:
        # A changefeed that the control has stopped differs everywhere, which says nothing.
        if line != counts and not (plan.without_ledger and result.faults):
            say(line)
    passed = result.passed(plan)
    if plan.without_ledger or plan.without_barrier:
        say("negative control: " + ("noticed" if passed else "FAILED, nothing was noticed"))
    elif not passed:
        say("FAILED")
    say(counts)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
