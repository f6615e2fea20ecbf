"""Topics: looked up, checked against the settings, created where that is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import errors as ke

from cdc.base.errors import InvalidError
from sink.kafka.clients import mapped, open_admin
from sink.kafka.errors import KafkaNotAuthorized, KafkaUnavailable, map_error
from sink.kafka.ledger import LEDGER_TOPIC
from sink.kafka.ledger_topic import NO_AUTHORIZATION, ensure_topic, topic_config
from sink.kafka.settings import KafkaSettings

DEFAULT_PARTITIONS = 3


class TopicNotExists(InvalidError):
    """A topic is missing and must not be created."""

    code = "TG:ErrKafkaTopicNotExists"


class TopicInvalid(InvalidError):
    """A topic that is not as the settings want it, or that cannot be created as they say."""

    code = "TG:ErrKafkaTopicInvalid"


@dataclass(frozen=True, slots=True)
class Topic:
    """Partitions that we use, and the largest batch that is taken."""

    name: str
    partitions: int
    limit: int


class Topics:
    """Topics of one sink; what was found is remembered until ``refresh``."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._known: dict[str, Topic] = {}

    def ensure(self, names: Iterable[str]) -> Mapping[str, Topic]:
        """Partitions and limits of topics; missing ones are created (``auto-create-topic``)."""
        wanted = list(dict.fromkeys(names))
        unknown = [name for name in wanted if name not in self._known]
        if unknown:
            with open_admin(self._settings) as admin:
                missing = [n for n, found in _describe(admin, unknown).items() if found is None]
                for name in missing:
                    self._create(admin, name, validate_only=False)
                if missing:
                    with mapped(self._settings, f"topic {missing[0]}"):
                        admin.wait_for_topics(missing)
                for name, found in _describe(admin, unknown).items():
                    self._known[name] = self._check(admin, name, found or {})
        return {name: self._known[name] for name in wanted}

    def present(self, names: Iterable[str]) -> frozenset[str]:
        """Those of these topics that exist."""
        asked = list(names)
        if not asked:
            return frozenset()
        with open_admin(self._settings) as admin:
            return frozenset(n for n, found in _describe(admin, asked).items() if found)

    def refresh(self) -> None:
        """Forget what was found: topics may have been changed or deleted."""
        self._known.clear()

    def check(self, admin: Any, name: str) -> None:
        """The topic is there and fits, or could be created."""
        found = _describe(admin, [name])[name]
        if found is None:
            self._create(admin, name, validate_only=True)
        else:
            _allowed(name, found, ("WRITE",))
            self._check(admin, name, found)

    def _create(self, admin: Any, name: str, *, validate_only: bool) -> None:
        settings = self._settings
        if not settings.auto_create_topic:
            raise TopicNotExists(
                "it does not exist, and auto-create-topic is false",
                object=f"topic {name}",
                hint="create it",
            )
        options = {
            "num_partitions": settings.partition_num or DEFAULT_PARTITIONS,
            "replication_factor": settings.replication_factor,
        }
        try:
            admin.create_topics({name: options}, validate_only=validate_only)
        except ke.TopicAlreadyExistsError:
            return
        except (ke.InvalidReplicationFactorError, ke.InvalidPartitionsError) as e:
            option = "replication-factor" if "Replication" in type(e).__name__ else "partition-num"
            raise TopicInvalid(
                f"it cannot be created: {type(e).__name__}",
                object=f"topic {name}",
                hint=f"lower {option}",
            ) from None
        except (ke.PolicyViolationError, ke.InvalidConfigurationError, ke.InvalidTopicError) as e:
            raise TopicInvalid(
                f"it cannot be created: {e}", object=f"topic {name}", hint="create it yourself"
            ) from None
        except NO_AUTHORIZATION:
            raise KafkaNotAuthorized(
                "the user may not create it",
                object=f"topic {name}",
                hint=f"grant the user Create on the topic {name}, or create it",
            ) from None

    def _check(self, admin: Any, name: str, found: Mapping[str, Any]) -> Topic:
        partitions = len(found.get("partitions", ()))
        if not partitions:
            # No topic has none: of a cluster, one that was just made is not known to all at once.
            raise KafkaUnavailable(
                "the broker that was asked does not know its partitions yet",
                object=f"topic {name}",
                hint="delivery asks again by itself; if this stays, look at the brokers",
            )
        wanted = self._settings.partition_num
        if wanted is not None and wanted > partitions:
            raise TopicInvalid(
                f"it has {partitions} partitions, partition-num is {wanted}",
                object=f"topic {name}",
                hint=f"give partition-num={partitions} or less, or add partitions",
            )
        config = topic_config(admin, name)
        limit = min(
            self._settings.max_message_bytes,
            int(config.get("max.message.bytes") or self._settings.max_message_bytes),
        )
        insync = int(config.get("min.insync.replicas") or 1)
        replicas = len(found["partitions"][0]["replica_nodes"])
        if self._settings.required_acks == -1 and 0 < replicas < insync:
            raise TopicInvalid(
                f"it has {replicas} replicas, but min.insync.replicas is {insync}",
                object=f"topic {name}",
                hint="lower min.insync.replicas or add replicas",
            )
        return Topic(name, wanted or partitions, limit)


def verify(settings: KafkaSettings, topics: Iterable[str] = ()) -> None:
    """Check a sink at creation: brokers, user, topics, and for exactly-once the ledger.

    ``topics`` are those that will be used; without any, the URI's. Raises one error with one hint.
    Whether transactional ids are allowed is found by the first ``recover``, and whether a topic
    that is still to be created may be written to, by its first message.
    """
    known = Topics(settings)
    with open_admin(settings) as admin:
        for name in dict.fromkeys(topics or (settings.topic,)):
            known.check(admin, name)
        if settings.exactly_once:
            ensure_topic(admin, settings, new=True)
            found = _describe(admin, [LEDGER_TOPIC])[LEDGER_TOPIC]
            _allowed(LEDGER_TOPIC, found or {}, ("READ", "WRITE"))


def _allowed(name: str, found: Mapping[str, Any], needed: Iterable[str]) -> None:
    """The broker says that the user may do what we must; older ones (< 2.3) do not say."""
    granted = found.get("authorized_operations") or ()
    missing = [right.title() for right in needed if right not in granted]
    if granted and missing:
        raise KafkaNotAuthorized(
            f"the user may not {' or '.join(missing).lower()}",
            object=f"topic {name}",
            hint=f"grant the user {' and '.join(missing)} on the topic {name}",
        )


def _describe(admin: Any, names: list[str]) -> dict[str, Mapping[str, Any] | None]:
    """Metadata by topic, ``None`` for those that do not exist."""
    out: dict[str, Mapping[str, Any] | None] = dict.fromkeys(names)
    for topic in admin.describe_topics(names):
        error = ke.for_code(topic.get("error_code", 0))
        if error is ke.NoError:
            out[topic["name"]] = topic
        elif error is not ke.UnknownTopicOrPartitionError:
            raise map_error(error(), object=f"topic {topic['name']}")
    return out
