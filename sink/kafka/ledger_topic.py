"""The ledger topic itself: made where it is missing, and looked at before it is relied on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kafka import errors as ke
from kafka.admin import ConfigResource, ConfigResourceType

from cdc.base.errors import InvalidError, TidegateError
from sink.kafka.errors import KafkaUnavailable
from sink.kafka.ledger import LEDGER_PARTITIONS, LEDGER_TOPIC, LedgerInvalid
from sink.kafka.settings import KafkaSettings

_CONFIG = {
    "cleanup.policy": "compact",
    # Only closed segments are compacted, and recovery reads what is not.
    "segment.bytes": str(4 * 1024 * 1024),
    "segment.ms": str(60 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}
_LOOK_S = 0.1
# As many copies as Kafka keeps of its own ledgers.
_REPLICAS = 3
NO_AUTHORIZATION = (ke.TopicAuthorizationFailedError, ke.ClusterAuthorizationFailedError)


def ensure_topic(admin: Any, settings: KafkaSettings, *, new: bool = False) -> None:
    """Create the ledger topic if it is missing, and check that it is whole and keeps all.

    For a ``new`` changefeed also that it does not hang on fewer brokers than it could. Raises
    :class:`LedgerInvalid`.
    """
    described = _described(admin)
    if described is None:
        options = {
            "num_partitions": LEDGER_PARTITIONS,
            "replication_factor": _replicas(admin, settings),
            "configs": _CONFIG,
        }
        with suppress(ke.TopicAlreadyExistsError):
            admin.create_topics({LEDGER_TOPIC: options})
        admin.wait_for_topics([LEDGER_TOPIC], timeout_ms=int(settings.delivery_timeout_s * 1000))
        described = _made(admin, settings)
    partitions = described["partitions"]
    if len(partitions) < LEDGER_PARTITIONS:
        raise _invalid(
            f"it has {len(partitions)} partitions, {LEDGER_PARTITIONS} are needed",
            "delete the topic while no changefeed runs; it is created again",
        )
    policy = topic_config(admin, LEDGER_TOPIC).get("cleanup.policy", "compact")
    if policy != "compact":
        raise _invalid(
            f"its cleanup.policy is {policy}: what it says would be deleted after a while",
            f"kafka-configs --alter --topic {LEDGER_TOPIC} --add-config cleanup.policy=compact",
        )
    least = min(len(p["replica_nodes"]) for p in partitions)
    if new and least < (wanted := _replicas(admin, settings)):
        raise _invalid(
            f"it has {least} replicas, and there are brokers for {wanted}: the loss of one would"
            " lose the ledger",
            f"give its partitions {wanted} replicas (kafka-reassign-partitions), or say that"
            f" {least} are enough: replication-factor={least}",
        )


def _described(admin: Any) -> Mapping[str, Any] | None:
    """The topic as some broker knows it; None if that one does not."""
    found: list[Mapping[str, Any]] = admin.describe_topics([LEDGER_TOPIC])
    return found[0] if found and not found[0].get("error_code") else None


def _made(admin: Any, settings: KafkaSettings) -> Mapping[str, Any]:
    """The topic that is there: each question goes to another broker, which may hear of it later."""
    end_s = time.monotonic() + settings.delivery_timeout_s
    while (described := _described(admin)) is None:
        if time.monotonic() > end_s:
            raise KafkaUnavailable(
                "a broker that was asked does not know it, although it was made",
                object=f"topic {LEDGER_TOPIC}",
                hint="look at the brokers",
            )
        time.sleep(_LOOK_S)
    return described


def topic_config(admin: Any, name: str) -> Mapping[str, Any]:
    """A topic's configuration; empty if we may not read it: the broker has the last word.

    So it is of a broker that has not heard of the topic yet.
    """
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    try:
        found = admin.describe_configs([resource], config_filter="all")["topic"][name]
    except (*NO_AUTHORIZATION, ke.UnknownTopicOrPartitionError, KeyError, TidegateError):
        return {}
    return {key: entry.get("value") for key, entry in found.items()}


def _replicas(admin: Any, settings: KafkaSettings) -> int:
    if "replication_factor" in settings.model_fields_set:
        return settings.replication_factor
    return min(_REPLICAS, max(1, len(admin.describe_cluster()["brokers"])))


def _invalid(message: str, hint: str) -> InvalidError:
    return LedgerInvalid(message, object=f"topic {LEDGER_TOPIC}", hint=hint)
