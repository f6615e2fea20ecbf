"""``python -m tests.soak``: the last line is the verdict, the exit code says it again."""

from __future__ import annotations

import argparse
import os
import sys

# Kernels come out of the cache that set-up filled; the server inherits this.
os.environ.setdefault("NUMBA_CACHE_DIR", os.path.expanduser("~/.cache/tidegate/numba"))

from tests.soak.run import Plan, soak


def main() -> int:
    """Soak as the arguments, or ``KILLS`` and ``MINUTES`` in the environment, say."""
    given = os.environ
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--kills", type=int, default=int(given.get("KILLS") or 10))
    parser.add_argument("--minutes", type=float, default=float(given.get("MINUTES") or 0))
    parser.add_argument("--seed", type=int, default=int(given.get("SEED") or 1))
    parser.add_argument("--rate", type=float, default=3000, help="row changes a second")
    parser.add_argument("--server", default="mariadb-11.4", help="upstream")
    parser.add_argument(
        "--without-ledger",
        action="store_true",
        help="negative control: recovery ignores the ledger, so duplicates must appear",
    )
    chosen = parser.parse_args()
    plan = Plan(
        chosen.kills,
        chosen.minutes,
        chosen.seed,
        chosen.rate,
        chosen.server,
        chosen.without_ledger,
    )

    def say(line: str) -> None:
        print(line, flush=True)

    result = soak(plan, say)
    for line in result.lines:
        say(line)
    shown = result.verdict.lines()
    counts = next(line for line in shown if line.startswith("lost "))
    for line in shown:
        if line != counts:
            say(line)
    passed = result.passed(plan)
    if plan.without_ledger:
        say("negative control: " + ("duplicates appear" if passed else "FAILED, none appeared"))
    elif not passed:
        say("FAILED")
    say(counts)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
