"""Clients of kafka-python, opened with a sink's settings; their errors come out as ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from sink.kafka.batch import discard, tame
from sink.kafka.errors import KafkaInternal, map_error
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
    ask_soon(producer._metadata)
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
    config = settings.client_config()
    with mapped(settings):
        with _RefusedLogin(settings):
            admin = KafkaAdminClient(**config)
        try:
            yield admin
        finally:
            with suppress(KafkaError):
                admin.close()


@contextmanager
def open_consumer(settings: KafkaSettings, isolation: str) -> Iterator[Any]:
    """A consumer without a group, at ``read_committed`` or ``read_uncommitted``."""
    config = settings.client_config()
    with mapped(settings):
        consumer = KafkaConsumer(
            **config,
            metrics_enabled=False,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=isolation,
            allow_auto_create_topics=False,
            fetch_max_wait_ms=100,
        )
        ask_soon(consumer._client.cluster)
        try:
            yield consumer
        finally:
            with suppress(KafkaError):
                consumer.close(autocommit=False)


def ask_soon(cluster: ClusterMetadata) -> None:
    """Let a client that has just been opened learn about a topic at once.

    It has asked for brokers only, and kafka-python has it wait for the rest of 100 ms then, as if
    the first answer had been a failure.
    """
    cluster._last_refresh_ms = 0


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
