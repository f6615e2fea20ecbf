"""What can go wrong at Kafka, as our five kinds, and how kafka-python's errors map to them."""

from __future__ import annotations

from kafka import errors as ke

from cdc.base.errors import (
    DefiniteError,
    InternalError,
    TidegateError,
    TransientError,
)
from sink.errors import FencedEpoch as FencedEpoch
from sink.errors import MessageTooLarge as MessageTooLarge
from sink.errors import SinkOptionNotSupported as SinkOptionNotSupported
from sink.errors import SinkUnknownOption as SinkUnknownOption
from sink.errors import SinkURIInvalid as SinkURIInvalid
from sink.errors import WindowTooLarge


class KafkaClientVersion(InternalError):
    """The installed kafka-python is not the one that the batch adapter was made for."""

    code = "TG:ErrKafkaClientVersion"


class KafkaInternal(InternalError):
    """The producer is in a state that should be impossible."""

    code = "TG:ErrKafkaInternal"


class KafkaRejected(DefiniteError):
    """The broker refused a batch as malformed."""

    code = "TG:ErrKafkaRejected"


class KafkaLedgerLost(DefiniteError):
    """The ledger topic does not know the changefeed, though it has delivered before."""

    code = "TG:ErrKafkaLedgerLost"


class KafkaUnavailable(TransientError):
    """No broker, leader or coordinator answered in time."""

    code = "TG:ErrKafkaUnavailable"


class KafkaTopicMissing(TransientError):
    """A topic or partition is not there (deleted, or not created yet)."""

    code = "TG:ErrKafkaTopicMissing"


class KafkaNotAuthorized(TransientError):
    """The broker refused the user; it may be allowed again."""

    code = "TG:ErrKafkaNotAuthorized"


class KafkaStorage(TransientError):
    """Brokers cannot write: a disk is full or failed, or too few replicas are left."""

    code = "TG:ErrKafkaStorage"


class KafkaProducerFenced(TransientError):
    """A transactional id was taken over although our epoch is the newest: recover and go on."""

    code = "TG:ErrKafkaProducerFenced"


class KafkaTransactionLost(TransientError):
    """A transaction failed or its outcome is unknown; the ledger says what holds."""

    code = "TG:ErrKafkaTransactionLost"


class KafkaTransactionTimedOut(WindowTooLarge):
    """The broker aborted a transaction that was open for too long: the next one is smaller."""

    code = "TG:ErrKafkaTransactionTimedOut"


class KafkaLedgerBlocked(TransientError):
    """An open transaction of somebody else hides the end of the ledger."""

    code = "TG:ErrKafkaLedgerBlocked"


_RULES: tuple[tuple[tuple[type[BaseException], ...], type[TidegateError], str], ...] = (
    (
        (ke.ProducerFencedError, ke.InvalidProducerEpochError),
        KafkaProducerFenced,
        "delivery recovers by itself; if it repeats, look for a second server on this changefeed",
    ),
    (
        (ke.MessageSizeTooLargeError, ke.RecordListTooLargeError),
        MessageTooLarge,
        "raise the topic's max.message.bytes and the sink's max-message-bytes",
    ),
    (
        (ke.TransactionalIdAuthorizationFailedError,),
        KafkaNotAuthorized,
        "grant the user Write on the transactional ids that begin with tidegate-",
    ),
    (
        (ke.TopicAuthorizationFailedError,),
        KafkaNotAuthorized,
        "grant the user Write on the topic; on tidegate-ledger, Read and Write",
    ),
    (
        (ke.ClusterAuthorizationFailedError,),
        KafkaNotAuthorized,
        "grant the user IdempotentWrite on the cluster",
    ),
    (
        (ke.AuthorizationError,),
        KafkaNotAuthorized,
        "grant the user Write on the topics and on the transactional ids tidegate-*",
    ),
    (
        (ke.SaslAuthenticationFailedError, ke.UnsupportedSaslMechanismError),
        KafkaNotAuthorized,
        "check sasl-user, sasl-password and sasl-mechanism",
    ),
    ((ke.UnknownTopicOrPartitionError,), KafkaTopicMissing, "create the topic again"),
    (
        (ke.KafkaStorageError, ke.NotEnoughReplicasError, ke.NotEnoughReplicasAfterAppendError),
        KafkaStorage,
        "look at the broker's disks and replicas",
    ),
    (
        (ke.CorruptRecordError, ke.InvalidRecordError, ke.InvalidTimestampError),
        KafkaRejected,
        "report this with the broker's log",
    ),
    (
        (
            ke.InvalidTxnStateError,
            ke.InvalidProducerIdMappingError,
            ke.OutOfOrderSequenceNumberError,
            ke.UnknownProducerIdError,
            ke.TransactionAbortedError,
        ),
        KafkaTransactionLost,
        "delivery recovers by itself from the ledger",
    ),
    (
        (ke.KafkaConfigurationError, ke.IllegalStateError, ke.IllegalArgumentError),
        KafkaInternal,
        "report this",
    ),
    (
        (ke.UnsupportedVersionError, ke.UnsupportedForMessageFormatError),
        SinkOptionNotSupported,
        "use Kafka 2.5 or newer, or exactly-once=false",
    ),
)


def map_error(error: BaseException, *, object: str = "kafka") -> TidegateError:
    """Our error for one of kafka-python's (or an ``OSError`` of its sockets).

    What is not known is transient (:class:`KafkaUnavailable`): the window is delivered again from
    the ledger, so nothing is lost by trying.
    """
    if isinstance(error, TidegateError):
        return error
    inner = next((a for a in error.args if isinstance(a, ke.KafkaError)), None)
    if inner is not None:
        return map_error(inner, object=object)
    if isinstance(error, ke.TopicAuthorizationFailedError):
        object = _refused_topics(error) or object
    for classes, ours, hint in _RULES:
        if isinstance(error, classes):
            return ours(_text(error), object=object, hint=hint)
    return KafkaUnavailable(
        _text(error), object=object, hint="check that the brokers run and can be reached"
    )


def _refused_topics(error: BaseException) -> str:
    """The topics of a refusal, which may be about another one than what was being done."""
    named = error.args[0] if error.args else None
    names = [named] if isinstance(named, str) else sorted(named or ())
    return f"topic {', '.join(names)}" if names else ""


def _text(error: BaseException) -> str:
    if isinstance(error, ke.BrokerResponseError):
        detail = str(error.args[0]) if error.args and error.args[0] else ""
        said = f"{type(error).__name__}: {detail or error.description}"
    else:
        said = f"{type(error).__name__}: {error}"
    return said[:500]
