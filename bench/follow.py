"""An ordinary read_committed consumer that folds a topic as it grows."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from bench.fold import Fold
from bench.workload import Committed

_TOPIC_S = 30.0


class Follower:
    """Reads ``topic`` from its beginning into ``fold``, in threads of its own, until ``close``.

    A topic that does not exist yet is waited for. The first few values are kept in ``samples``,
    one for each table and type; what ``fold`` passes over is kept in ``others``, with its
    partition. Failures of reading or folding are raised by ``check``, ``wait``
    and ``close``.
    """

    def __init__(self, bootstrap: str, topic: str, fold: Fold) -> None:
        self.fold = fold
        self.samples: dict[tuple[str, str], bytes] = {}
        self.others: list[tuple[int, bytes]] = []
        self.received_s = 0.0
        self._stopping = threading.Event()
        self._read: queue.SimpleQueue[tuple[float, list[Any]] | None] = queue.SimpleQueue()
        self._failed: list[BaseException] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"fold-{topic}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                # A broker that is away is no news here, and would be a line every 50 ms.
                "log_level": 2,
            }
        )
        partitions = self._partitions(topic)
        self._offsets = dict.fromkeys(partitions, -1)
        self._consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        self._threads = [
            threading.Thread(target=self._guarded, args=(what,), daemon=True)
            for what in (self._receive, self._work)
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, committed: Committed, timeout_s: float, quiet_s: float = 2.0) -> bool:
        """Wait until all that was committed has arrived, and then for ``quiet_s`` of silence.

        False if for ``timeout_s`` nothing arrives and something is still missing.
        """
        last, since = -1, time.monotonic()
        while not self._failed:
            count, now = self.fold.messages, time.monotonic()
            if count != last:
                last, since = count, now
            elif now - since > quiet_s and self.fold.missing(committed) == 0:
                return True
            elif now - since > timeout_s:
                return False
            time.sleep(0.1)
        raise self._failed[0]

    def _partitions(self, topic: str) -> list[int]:
        """A changefeed makes its topic when it begins, which may be after us."""
        deadline = time.monotonic() + _TOPIC_S
        while not (found := self._consumer.list_topics(topic, 10).topics[topic].partitions):
            if time.monotonic() > deadline:
                raise RuntimeError(f"there is no topic {topic}")
            time.sleep(0.1)
        return list(found)

    def check(self) -> None:
        """Raise what has gone wrong, if anything has."""
        if self._failed:
            raise self._failed[0]

    def close(self) -> None:
        """Stop reading."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._consumer.close()
        if self._failed:
            raise self._failed[0]

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except BaseException as error:
            self._failed.append(error)
            self._stopping.set()

    def _receive(self) -> None:
        # Apart from the folding, so that the time of receipt is not that of the work before it.
        try:
            while not self._stopping.is_set():
                messages = self._consumer.consume(5000, 0.02)
                if messages:
                    self._read.put((time.time(), messages))
        finally:
            self._read.put(None)

    def _work(self) -> None:
        while (found := self._read.get()) is not None:
            received, messages = found
            for message in messages:
                if error := message.error():
                    # Brokers come and go; librdkafka goes on by itself.
                    if error.fatal() or error.code() == KafkaError._AUTHENTICATION:
                        raise RuntimeError(str(error))
                    continue
                offset, partition = message.offset(), message.partition()
                if offset <= self._offsets[partition]:
                    continue
                self._offsets[partition] = offset
                value = message.value()
                if not self.fold.add(value, received):
                    self.others.append((partition, value))
                if len(self.samples) < 60:
                    self._sample(value)
            self.received_s = received

    def _sample(self, value: bytes) -> None:
        table = value.split(b'"table":"', 1)[1].split(b'"', 1)[0].decode()
        kind = value.split(b'"type":"', 1)[1].split(b'"', 1)[0].decode()
        self.samples.setdefault((table, kind), value)
