"""Delivers numbered windows until it is killed: one process of the crash tests.

usage: crash_child URI FEED EPOCH WINDOWS LEDGER(yes|no)
"""

from __future__ import annotations

import sys

from cdc.base.position import START, Position
from sink.kafka.deliverer import KafkaDeliverer
from sink.kafka.recovery import recover
from sink.kafka.settings import KafkaSettings
from tests.sink_kafka.conftest import feed_of, framed

MESSAGES = 200


def main(uri: str, feed: str, epoch: str, windows: str, ledger: str) -> None:
    settings = KafkaSettings.parse(uri)
    positions = recover(settings, feed_of(feed), int(epoch), 2)
    if ledger == "no":
        positions = {}
    deliverer = KafkaDeliverer(settings, feed_of(feed), int(epoch), int(epoch) % 2)
    print("ready", flush=True)
    for window in range(int(windows)):
        at = Position(window + 1)
        todo = [p for p in range(2) if positions.get((settings.topic, p), START) < at]
        deliverer.begin()
        for p in todo:
            for batch in range(4):
                values = [b"%d.%d.%d" % (window, batch, i) for i in range(MESSAGES)]
                deliverer.send(settings.topic, p, *framed(values), 1, 1)
        deliverer.commit({(settings.topic, p): at for p in todo})
        if todo:
            print("committed", flush=True)
    deliverer.close()
    print("end", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
