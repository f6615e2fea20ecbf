"""Executes numbered schema changes until it is killed: one process of the crash tests.

usage: change_child URI FEED EPOCH CHANGES LEDGER(yes|no)
"""

from __future__ import annotations

import sys

from sink.contract import RECOVERY_BITS
from sink.kafka import changer as changer_module
from sink.kafka.sink import KafkaSink
from tests.sink_kafka.changes import history
from tests.sink_kafka.conftest import feed_of


def main(uri: str, feed: str, epoch: str, changes: str, ledger: str) -> None:
    if ledger == "no":
        # What a changer without a memory would do.
        changer_module.read_changes = lambda *_, **__: {}
    changer = KafkaSink(uri, {}).changer(feed_of(feed), int(epoch) << RECOVERY_BITS)
    recorded = changer.take_over()
    print("ready", flush=True)
    statements = [f"CREATE TABLE t{n} (id INT PRIMARY KEY)" for n in range(int(changes))]
    for change in history("CREATE DATABASE shop", *statements):
        if change.ts not in recorded:
            changer.execute(change)
            print("sent", flush=True)
    changer.close()
    print("end", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
