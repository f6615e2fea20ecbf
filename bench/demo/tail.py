"""A consumer for the tutorial: ``python -m bench.demo.tail HOST:PORT TOPIC [SECONDS]``."""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, TopicPartition


def main() -> int:
    """Print committed messages of a topic from its beginning, until nothing comes for a while."""
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    bootstrap, topic = sys.argv[1:3]
    quiet = float(sys.argv[3]) if len(sys.argv) > 3 else 3.0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tail",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    found = consumer.list_topics(topic, 10).topics[topic].partitions
    if not found:
        print(f"there is no topic {topic}", file=sys.stderr)
        return 1
    consumer.assign([TopicPartition(topic, p, 0) for p in found])
    last = time.monotonic()
    while time.monotonic() - last < quiet:
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            last = time.monotonic()
            print(f"{topic}-{message.partition()} {message.value().decode()}")
    consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
