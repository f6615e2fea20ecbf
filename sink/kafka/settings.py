"""Settings of a Kafka sink: its URI and the ``sink`` section of the configuration."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, Self
from urllib.parse import unquote

from pydantic import Field, SecretStr, model_validator

from cdc.base import egress, secret_refs
from cdc.base.hosts import is_loopback
from cdc.source.login import LoginInsecure
from sink.codec.options import FormatOptions
from sink.codec.protocols import Protocol, check_protocol
from sink.dispatch.read import read_column_selectors, read_dispatchers
from sink.kafka import sockets
from sink.kafka.compression import Codec
from sink.kafka.errors import SinkURIInvalid
from sink.uri import SinkUri, known, option_names, seconds, section, validated

SCHEMES = ("kafka", "kafka+ssl")
_EXAMPLE = "kafka://127.0.0.1:9092/topic?protocol=canal-json"
_TOPIC = re.compile(r"[A-Za-z0-9._\-]{1,249}\Z")
# Options of TiCDC that mean something we do not do: silence about them would be a lie.
_LATER = frozenset(
    {
        *("schema-registry", "csv", "open", "pulsar-config"),
        *("codec-config", "large-message-handle", "glue-schema-registry-config"),
        *("output-raw-change-event", "transaction-atomicity", "mysql-config", "safe-mode"),
        *("cloud-storage-config", "sasl-gssapi-auth-type", "sasl-gssapi-keytab-path"),
        *("sasl-gssapi-kerberos-config-path", "sasl-gssapi-user", "sasl-gssapi-password"),
        *("sasl-gssapi-realm", "sasl-gssapi-disable-pafxfast", "sasl-gssapi-service-name"),
        *("sasl-oauth-client-id", "sasl-oauth-client-secret", "sasl-oauth-token-url"),
        *("sasl-oauth-scopes", "sasl-oauth-grant-type", "sasl-oauth-audience"),
        *("avro-decimal-handling-mode", "avro-bigint-unsigned-handling-mode"),
        *("avro-enable-watermark", "file-index-digit"),
        *("send-bootstrap-interval-in-sec", "send-bootstrap-in-msg-count"),
        *("send-bootstrap-to-all-partition",),
    }
)
# Options of TiCDC that are hints to its own implementation: accepted, without effect.
_WITHOUT_EFFECT = frozenset(
    {
        *("kafka-version", "max-batch-size", "encoder-concurrency", "terminator"),
        *("date-separator", "enable-partition-separator", "enable-kafka-sink-v2"),
        *("max-retry", "dial-timeout"),
    }
)


class SaslMechanism(StrEnum):
    """SASL mechanisms."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class KafkaSettings(FormatOptions):
    """A Kafka sink, as TiCDC's sink URI and ``sink`` section describe it (keys in kebab-case).

    Ours beyond TiCDC: ``exactly-once`` (default true) delivers in Kafka transactions with a ledger.
    """

    servers: tuple[str, ...] = Field(min_length=1)
    protocol: Protocol
    partition_num: int | None = Field(default=None, ge=1, le=10_000)
    replication_factor: int = Field(default=1, ge=1, le=32767)
    max_message_bytes: int = Field(default=10 * 1024 * 1024, ge=1024, le=100 * 1024 * 1024)
    compression: Codec = Codec.NONE
    required_acks: Literal[-1, 0, 1] = -1
    auto_create_topic: bool = True
    kafka_client_id: str = "tidegate"
    read_timeout: float = Field(default=10.0, gt=0, le=600)
    write_timeout: float = Field(default=10.0, gt=0, le=600)
    exactly_once: bool = True

    enable_tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure_skip_verify: bool = False
    sasl_user: str | None = None
    sasl_password: SecretStr | None = None
    sasl_mechanism: SaslMechanism | None = None
    insecure_login: bool = False

    @classmethod
    def parse(cls, sink_uri: str, sink_config: Mapping[str, Any] | None = None) -> KafkaSettings:
        """Settings of a sink URI and a ``sink`` section (kebab- or snake-case keys).

        The URI wins over the section. Raises an :class:`InvalidError` with one hint for a bad
        URI, an unknown key, a value of the wrong type, or a protocol that we do not write. No
        message carries a password.
        """
        uri = SinkUri.parse(
            sink_uri, SCHEMES, _EXAMPLE, (*option_names(cls), *_LATER, *_WITHOUT_EFFECT)
        )
        fields, shown = _from_config(sink_config or {}) | _from_uri(uri), uri.shown
        check_protocol(fields, shown)
        fields = known(fields, cls, shown, later=_LATER, without_effect=_WITHOUT_EFFECT)
        for name in ("read-timeout", "write-timeout"):
            if name in fields:
                fields[name] = seconds(name, fields[name], shown)
        if isinstance(fields.get("sasl-mechanism"), str):
            fields["sasl-mechanism"] = fields["sasl-mechanism"].upper()
        if isinstance(fields.get("compression"), str):
            fields["compression"] = fields["compression"].lower() or "none"
        if isinstance(fields.get("required-acks"), str):
            fields["required-acks"] = _integer("required-acks", fields["required-acks"], shown)
        settings = validated(cls, fields, shown)
        settings._check_login(shown)
        return settings

    def _check_login(self, shown: str) -> None:
        """Refuse to send a password that the network can read: SASL PLAIN without TLS."""
        plain = self.sasl_user is not None and self.sasl_mechanism in (None, SaslMechanism.PLAIN)
        local = all(is_loopback(server.rpartition(":")[0]) for server in self.servers)
        if plain and not (self.enable_tls or self.insecure_login or local):
            raise LoginInsecure(
                "SASL PLAIN sends the password as it is, without TLS",
                object=shown,
                hint="write kafka+ssl://, or sasl-mechanism=SCRAM-SHA-512, or insecure-login=true"
                " where the network is trusted",
            )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not _TOPIC.match(self.topic) or self.topic in (".", ".."):
            raise ValueError(f"topic {self.topic!r} is not a Kafka topic name")
        if self.exactly_once and self.required_acks != -1:
            raise ValueError("exactly-once needs required-acks=-1 (or give exactly-once=false)")
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key belong together")
        if (self.sasl_user is None) != (self.sasl_password is None):
            raise ValueError("sasl-user and sasl-password belong together")
        if self.sasl_user is None and self.sasl_mechanism is not None:
            raise ValueError("sasl-mechanism needs sasl-user and sasl-password")
        return self

    @property
    def delivery_timeout_s(self) -> float:
        """How long a batch may be on its way before the window fails."""
        return 3 * self.write_timeout

    def client_config(self) -> dict[str, Any]:
        """Keyword arguments that every client of kafka-python shares. Holds the password.

        Raises SecretUnusable, HostNotAllowed, and SinkURIInvalid if TLS's files cannot be read.
        """
        config = self.connection()
        if self.enable_tls:
            config["ssl_context"] = self._ssl_context()
        return config

    def connection(self) -> dict[str, Any]:
        """Those that say where clients connect, and as whom; TLS's files are not looked at.

        To read them takes more processor than to open a client. Raises SecretUnusable and
        HostNotAllowed.
        """
        config: dict[str, Any] = {
            "bootstrap_servers": list(self.servers),
            "client_id": self.kafka_client_id,
            "request_timeout_ms": int(self.write_timeout * 1000),
            "bootstrap_timeout_ms": int(self.read_timeout * 1000),
            # The client sleeps this long after CONCURRENT_TRANSACTIONS, which is the usual answer
            # right after a commit, so its default of 100 ms would be the latency of a window.
            "retry_backoff_ms": 5,
            "reconnect_backoff_max_ms": 1000,
        }
        if egress.installed().hosts is not None:
            sockets.check(self.servers)
            config["proxy_url"] = sockets.PROXY_URL
        sasl = self.sasl_user is not None
        config["security_protocol"] = ("SASL_" if sasl else "") + (
            "SSL" if self.enable_tls else "PLAINTEXT"
        )
        if self.sasl_user is not None and self.sasl_password is not None:
            config["sasl_mechanism"] = str(self.sasl_mechanism or SaslMechanism.PLAIN)
            config["sasl_plain_username"] = self.sasl_user
            secret = self.sasl_password.get_secret_value()
            config["sasl_plain_password"] = secret_refs.resolved(secret)
        return config

    def _ssl_context(self) -> ssl.SSLContext:
        egress.installed().check_certificate(self.ca, self.cert, self.key)
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None and self.key is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as e:
            raise SinkURIInvalid(
                f"TLS files cannot be read: {e.strerror or type(e).__name__}",
                object="ca, cert, key",
                hint="give paths of readable PEM files",
            ) from None
        if self.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _from_uri(uri: SinkUri) -> dict[str, Any]:
    parts = uri.parts
    if "@" in parts.netloc:
        raise SinkURIInvalid(
            "a user before the host is not used by Kafka",
            object=uri.shown,
            hint="give sasl-user and sasl-password as parameters",
        )
    servers = tuple(_server(host, uri) for host in parts.netloc.split(",") if host)
    if not servers:
        raise uri.error("no broker address")
    topic = unquote(parts.path).strip("/")
    if not topic:
        raise uri.error("no topic")
    fields = dict(uri.parameters)
    if parts.scheme == "kafka+ssl":
        fields.setdefault("enable-tls", True)
    return fields | {"servers": servers, "topic": topic}


def _server(text: str, uri: SinkUri) -> str:
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, "9092"
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise uri.error("a broker address is not host:port")
    return f"{host}:{port}"


def _from_config(config: Mapping[str, Any]) -> dict[str, Any]:
    old_value = {"output-old-value": "debezium-output-old-value"}
    fields = section(section(config, "kafka-config"), "debezium", old_value)
    if "dispatchers" in fields:
        fields["dispatchers"] = read_dispatchers(fields["dispatchers"])
    if "column-selectors" in fields:
        fields["column-selectors"] = read_column_selectors(fields["column-selectors"])
    return fields


def _integer(name: str, value: str, shown: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise SinkURIInvalid(
            f"{name}: {value!r} is not a number", object=shown, hint=f"correct {name}"
        ) from None
