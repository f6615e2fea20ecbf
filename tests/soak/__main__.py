"""``python -m tests.soak``: the last line is the verdict, the exit code says it again."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

# Kernels come out of the cache that set-up filled; the server inherits this.
os.environ.setdefault("NUMBA_CACHE_DIR", os.path.expanduser("~/.cache/tidegate/numba"))

from tests.soak import cluster, cluster_db, ddl, endure, faults, run, shards, snapshots, to_mysql
from tests.soak.plan import Control, Plan, new_seed

_SOAKS = {
    "kafka": run.soak,
    "mysql": to_mysql.soak,
    "ddl": ddl.soak,
    "faults": faults.soak,
    "cluster": cluster.soak,
    "cluster-db": cluster_db.soak,
    "snapshot": snapshots.soak,
    "shards": shards.soak,
}
_CONTROLS = {
    "kafka": (Control.LEDGER, Control.ROWS),
    "mysql": (Control.LEDGER, Control.ATOMICITY, Control.MASK),
    "ddl": (Control.BARRIER,),
    "faults": (),
    "cluster": (Control.EPOCH, Control.GUARD),
    "cluster-db": (Control.SORT, Control.HOLES, Control.PART, Control.HEARTBEAT),
    "snapshot": (Control.TOUCHED, Control.PLACE),
    "shards": (Control.BARRIER,),
}
# Of row snapshots of shards.
_SERVERS = 3
# Those that go by the time alone.
_MINUTES = {"ddl": 10.0, "faults": 10.0, "cluster-db": 10.0, "shards": 10.0}


def main() -> int:
    """Soak as the arguments, or the environment (``SINK``, ``KILLS``, ``MINUTES`` …), say."""
    given = os.environ
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    sink = given.get("SINK") or "kafka"
    parser.add_argument("--sink", choices=("kafka", "mysql"), default=sink)
    parser.add_argument("--kills", type=int, default=int(given.get("KILLS") or 10))
    parser.add_argument("--minutes", type=float, default=float(given.get("MINUTES") or 0))
    parser.add_argument("--seed", type=int, default=0, help="else SEED, or a new one")
    parser.add_argument("--rate", type=float, default=3000, help="row changes a second")
    parser.add_argument("--server", default=given.get("SERVER") or "mariadb-11.4", help="upstream")
    parser.add_argument("--target", default=given.get("TARGET") or "", help="else as the upstream")
    parser.add_argument("--ddl", action="store_true", default=bool(given.get("DDL")))
    parser.add_argument("--faults", action="store_true", default=bool(given.get("FAULTS")))
    parser.add_argument("--snapshot", action="store_true", default=bool(given.get("SNAPSHOT")))
    parser.add_argument("--cluster", default=given.get("CLUSTER"), help="1, or blows of this name")
    parser.add_argument("--cluster-db", action="store_true", default=bool(given.get("CLUSTERDB")))
    parser.add_argument("--shards", action="store_true", default=bool(given.get("SHARDS")))
    nodes = int(given.get("NODES") or Plan.nodes)
    parser.add_argument("--nodes", type=int, choices=cluster_db.NODES, default=nodes)
    parser.add_argument("--upstream", default=given.get("UPSTREAM"), help="of --ddl; else both")
    parser.add_argument(
        "--without",
        choices=[str(c) for c in Control],
        help="negative control: this is taken away from the product, which must be noticed",
    )
    endured = float(given.get("ENDURE") or 0)
    parser.add_argument("--endure", type=float, default=endured, help="minutes without kills")
    chosen = parser.parse_args()
    asked = {"ddl": chosen.ddl, "faults": chosen.faults, "cluster": chosen.cluster}
    asked |= {"cluster-db": chosen.cluster_db, "snapshot": chosen.snapshot}
    asked["shards"] = chosen.shards
    kind = next((name for name, wanted in asked.items() if wanted), chosen.sink)
    if kind not in _SOAKS:  # a default out of the environment is not checked
        parser.error(f"no such sink: {kind}; there are kafka, mysql")
    control = Control(chosen.without) if chosen.without else None
    if control is not None and control not in _CONTROLS[kind]:
        parser.error(f"no such control of this soak: there are {', '.join(_CONTROLS[kind])}")
    plan = Plan(
        chosen.kills,
        chosen.minutes or _MINUTES.get(kind, 0),
        chosen.seed or new_seed(),
        chosen.rate,
        chosen.server,
        chosen.target,
        control,
        only=chosen.cluster if chosen.cluster not in (None, "1") else "",
        nodes=chosen.nodes,
        servers=_SERVERS if chosen.shards else 1,
    )
    if plan.only and not any(plan.only in name for name in cluster.BLOWS):
        parser.error(f"no such blow: {plan.only}; there are {', '.join(cluster.BLOWS)}")
    if chosen.upstream:
        plan = replace(plan, upstreams=(chosen.upstream,))

    def say(line: str) -> None:
        print(line, flush=True)

    if chosen.endure:
        return endure.main(endure.Enduring(chosen.endure, server=chosen.server), say)
    result = _SOAKS[kind](plan, say)
    for line in (*result.lines, *map(str, result.faults)):
        say(line)
    shown = result.verdict.lines()
    counts = next(line for line in shown if line.startswith("lost "))
    for line in shown:
        if line != counts:
            say(line)
    passed = result.passed(plan)
    seen = ", ".join(sorted(result.kinds())) or "nothing"
    if control is not None:
        word = "noticed by" if passed else "FAILED, it must be noticed, and by nothing else:"
        say(f"negative control, without {control}: {word} {seen}")
    elif not passed:
        say(f"FAILED: {seen}; again with SEED={plan.seed}")
    say(counts)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
