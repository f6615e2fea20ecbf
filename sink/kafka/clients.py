"""Clients of kafka-python, opened with a sink's settings; their errors come out as ours."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.compat import KafkaNetClient

from cdc.base import egress
from sink.kafka.batch import discard, tame
from sink.kafka.errors import KafkaInternal, map_error
from sink.kafka.idle_clients import IdleClients
from sink.kafka.settings import KafkaSettings

# Broken connections, retries and aborted batches reach the caller as errors; kafka-python's own
# warnings about them would only repeat it, a line per batch.
logging.getLogger("kafka").setLevel(logging.CRITICAL)
_NETWORK_LOG = logging.getLogger("kafka.net.manager")
_NETWORK_LOG.setLevel(logging.WARNING)
_NETWORK_LOG.propagate = False
_NETWORK_LOG.addHandler(logging.NullHandler())
_LOGIN_ERRORS = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)

TRANSACTION_TIMEOUT_MS = 120_000
# kafka-python would wait for 100 ms between questions about topics, and asks its first for nothing.
# Of consumers only, which are few: each producer asks on while a partition has no leader.
_ASK_AGAIN_MS = 10
# Who asks once more before the answer has come has two questions, of which the second waits.
_ANSWER_S = 1.0
# Where no broker is named as the controller, until they are asked again.
_NO_CONTROLLER_S = 1.0


def open_producer(settings: KafkaSettings, transactional_id: str | None = None) -> KafkaProducer:
    """A producer for ready-made batches; the caller discards it (:func:`batch.discard`).

    Transactional with an id, else idempotent, else (``required-acks`` below -1) plain.
    """
    options: dict[str, Any] = {
        "acks": settings.required_acks,
        "delivery_timeout_ms": int(settings.delivery_timeout_s * 1000),
        "max_block_ms": int(settings.delivery_timeout_s * 1000),
        "max_in_flight_requests_per_connection": 5,
        # One request may carry a batch of each partition.
        "max_request_size": 64 * 1024 * 1024,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }
    if transactional_id is not None:
        options["transactional_id"] = transactional_id
        options["transaction_timeout_ms"] = TRANSACTION_TIMEOUT_MS
    elif settings.required_acks != -1:
        options["enable_idempotence"] = False
        options["max_in_flight_requests_per_connection"] = 1
    with mapped(settings), _RefusedLogin(settings):
        producer = KafkaProducer(**settings.client_config(), **options)
    tame(producer)
    if transactional_id is not None:
        try:
            with mapped(settings):
                producer.init_transactions()
        except BaseException:
            discard(producer)
            raise
    return producer


@contextmanager
def open_admin(settings: KafkaSettings) -> Iterator[Any]:
    """An admin client."""

    def make() -> Any:
        config = settings.client_config()
        with _RefusedLogin(settings):
            return _Admin(**config)

    with mapped(settings), _idle.lent(("admin", _kind(settings)), make) as admin:
        yield admin


@contextmanager
def open_consumer(settings: KafkaSettings, isolation: str) -> Iterator[Any]:
    """A consumer without a group, at ``read_committed`` or ``read_uncommitted``."""

    def make() -> Any:
        return KafkaConsumer(
            **settings.client_config(),
            metrics_enabled=False,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=isolation,
            allow_auto_create_topics=False,
            fetch_max_wait_ms=100,
            kafka_client=_asking_again_soon,
        )

    with mapped(settings), _idle.lent((isolation, _kind(settings)), make) as consumer:
        yield consumer
        consumer.unsubscribe()


@contextmanager
def plain_producer(settings: KafkaSettings) -> Iterator[KafkaProducer]:
    """An idempotent producer for single batches outside of any transaction."""
    durable = settings.model_copy(update={"required_acks": -1})
    with _idle.lent(("producer", _kind(settings)), lambda: open_producer(durable)) as producer:
        yield producer


def _kind(settings: KafkaSettings) -> Hashable:
    """What clients have in common that may stand for each other."""
    files = (settings.ca, settings.cert, settings.key, settings.insecure_skip_verify)
    to = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.connection().items()}
    # What may be reached is looked at where a client connects.
    return (egress.installed().model_dump_json(), files, *sorted(to.items()))


def _end(client: Any) -> None:
    if isinstance(client, KafkaProducer):
        discard(client)
        return
    with suppress(KafkaError):
        if isinstance(client, KafkaConsumer):
            client.close(autocommit=False)
        else:
            client.close()


def _fit(client: Any) -> bool:
    """Whether it is connected, and has not lost a broker: it would then rest before it tries."""
    holder = client._sender if isinstance(client, KafkaProducer) else client
    manager = holder._client._manager
    connected = any(c.connected for c in tuple(manager._conns.values()))
    return connected and not manager._backoff


_idle: IdleClients[Any] = IdleClients(_end, _fit)


class _Admin(KafkaAdminClient):  # type: ignore[misc]
    """A client that can reach whom a broker names as the controller.

    In a cluster without ZooKeeper that is any of the brokers that live as the asked one knows it.
    kafka-python looks for its address in an answer of before, where one that has just come back is
    missing; here both are of one answer.
    """

    async def _refresh_controller_id(self, timeout_ms: int = 30_000) -> int:
        end_s = time.monotonic() + timeout_ms / 1000
        while True:
            await self._manager.cluster.refresh_metadata()
            if (controller := self._manager.cluster.controller) is not None:
                return int(controller.node_id)
            if time.monotonic() > end_s:
                raise NodeNotReadyError("controller")
            await self._net.sleep(_NO_CONTROLLER_S)


def _asking_again_soon(**options: Any) -> KafkaNetClient:
    """What connects a consumer. It asks about no topic first, and only then about its own."""
    client = KafkaNetClient(**options)
    client.cluster.config["retry_backoff_ms"] = _ASK_AGAIN_MS
    return client


def partitions_of(producer: KafkaProducer, topic: str) -> set[int]:
    """The partitions of a topic that a producer sends to; its errors are kafka-python's.

    One that it does not know yet it asks about at once, by name. kafka-python asks before it has
    noted the name, and has the next question wait for the rest of 100 ms then, as if the answer had
    been a failure.
    """
    cluster: ClusterMetadata = producer._metadata
    if topic not in cluster._topics:
        answered = threading.Event()
        cluster._last_refresh_ms = 0
        # Another set: the network's thread may be walking through this one.
        future = cluster.set_topics({*cluster._topics, topic})
        future.add_both(lambda _: answered.set())
        answered.wait(_ANSWER_S)
    found: set[int] = producer.partitions_for(topic)
    return found


class _RefusedLogin(logging.Handler):
    """Knows why a client could not connect.

    kafka-python tries a refused login again until its time is over, then reports only that; the
    cause is an argument of its log records. A broker may also just end the connection during the
    login; one that is down does not accept it.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        super().__init__(logging.WARNING)
        self._sasl = settings.sasl_user is not None
        self._refused: KafkaError | None = None

    def emit(self, record: logging.LogRecord) -> None:
        for argument in record.args if isinstance(record.args, tuple) else ():
            if isinstance(argument, _LOGIN_ERRORS):
                self._refused = argument
            elif self._sasl and isinstance(argument, KafkaConnectionError):
                ended = "disconnected" in str(argument)
                refused = SaslAuthenticationFailedError("the broker ended the login")
                self._refused = refused if ended else None

    def __enter__(self) -> None:
        _NETWORK_LOG.addHandler(self)

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        _NETWORK_LOG.removeHandler(self)
        if isinstance(error, KafkaTimeoutError) and self._refused is not None:
            raise self._refused


@contextmanager
def mapped(settings: KafkaSettings, what: str = "") -> Iterator[None]:
    """Errors of kafka-python and of sockets leave as ours, about ``what`` or the brokers."""
    try:
        yield
    except (KafkaError, OSError) as e:
        raise map_error(e, object=what or f"kafka {','.join(settings.servers)}") from None
    except (ValueError, TypeError) as e:
        raise KafkaInternal(f"{type(e).__name__}: {e}", object=what or "kafka client") from e
