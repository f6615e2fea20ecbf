"""Settings of a MySQL sink: its URI and the ``sink`` section of the configuration."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, model_validator

from cdc.base import secret_refs
from cdc.source.tls import SslMode
from sink.dispatch.extracted import Given, given_columns
from sink.dispatch.read import read_dispatchers
from sink.dispatch.settings import DispatcherSettings
from sink.dispatch.target import TargetRouter
from sink.errors import SinkOptionNotSupported, SinkUnknownOption
from sink.uri import SinkUri, known, option_names, seconds, section, validated

SCHEMES = ("mysql", "mysql+ssl", "mariadb", "mariadb+ssl")
_EXAMPLE = "mysql://user:password@127.0.0.1:3306/"
_OTHER_SCHEMES = ("tidb", "tidb+ssl")
ALL_SCHEMES = (*SCHEMES, *_OTHER_SCHEMES)
# Options of TiCDC that mean something we do not do: silence about them would be a lie.
_LATER = frozenset(
    {
        *("tidb-txn-mode", "where-clause", "dry-run", "has-vector-type", "enable-ddl-ts"),
        *("async-ddl-timeout", "column-selectors", "protocol"),
        *("schema-registry", "kafka-config", "pulsar-config", "cloud-storage-config", "csv"),
        *("bdr-mode", "only-output-updated-columns", "delete-only-output-handle-key-columns"),
    }
)
# Options of TiCDC that are hints to its own implementation: accepted, without effect.
_WITHOUT_EFFECT = frozenset(
    {
        *("max-txn-row", "max-multi-update-row", "max-multi-update-row-size"),
        *("batch-dml-enable", "multi-stmt-enable", "cache-prep-stmts", "prep-stmt-cache-size"),
        *("enable-old-value", "encoder-concurrency", "terminator", "date-separator"),
        *("enable-partition-separator", "enable-batch-dml", "enable-multi-statement"),
        *("enable-cache-prep-stmts",),
    }
)
# Keys of sink.mysql-config whose URI parameter has another name.
_CONFIG_NAMES = {
    "mysql-worker-count": "worker-count",
    "mysql-max-txn-row": "max-txn-row",
    "enable-safe-mode": "safe-mode",
}
# Options whose values are words, in any case.
_WORDS = ("apply", "transaction-atomicity", "foreign-key-checks", "unique-checks", "ssl-mode")


class Apply(StrEnum):
    """How rows reach a table."""

    AUTO = "auto"
    ROWS = "rows"
    SQL = "sql"


class Atomicity(StrEnum):
    """What of an upstream transaction is kept whole in one target transaction."""

    NONE = "none"
    TABLE = "table"
    GLOBAL = "global"


class Checks(StrEnum):
    """Whether foreign or unique keys are checked: as the upstream's session did, or never."""

    UPSTREAM = "upstream"
    OFF = "off"


class MysqlSettings(BaseModel):
    """A MySQL or MariaDB sink, with TiCDC's names (keys in kebab-case).

    Ours beyond TiCDC: ``apply``, ``exactly-once``, ``transaction-atomicity=global``, ``ssl-mode``,
    ``sql-log-bin``, ``foreign-key-checks`` and ``unique-checks`` (TiCDC turns the former off, but
    a cascade of InnoDB is not in the binlog: only the target's own foreign keys repeat it).
    Times are in seconds.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=False,
        hide_input_in_errors=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    host: str
    port: int = Field(default=3306, ge=1, le=65535)
    user: str
    password: SecretStr = SecretStr("")

    apply: Apply = Apply.AUTO
    exactly_once: bool = True
    transaction_atomicity: Atomicity = Atomicity.NONE
    worker_count: int = Field(default=2, ge=1, le=64)
    safe_mode: bool = False

    timeout: float = Field(default=120.0, ge=1, le=3600)
    read_timeout: float = Field(default=120.0, ge=1, le=3600)
    write_timeout: float = Field(default=120.0, ge=1, le=3600)
    time_zone: str | None = None
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    ssl_mode: SslMode | None = None
    insecure_login: bool = False
    sql_log_bin: bool = True
    foreign_key_checks: Checks = Checks.UPSTREAM
    unique_checks: Checks = Checks.UPSTREAM
    dispatchers: tuple[DispatcherSettings, ...] = ()
    _names: TargetRouter = PrivateAttr(default_factory=TargetRouter)
    _changing: bool = PrivateAttr(default=False)

    @classmethod
    def parse(
        cls,
        sink_uri: str,
        sink_config: Mapping[str, Any] | None = None,
        *,
        case_sensitive: bool = False,
        merging: bool = False,
    ) -> MysqlSettings:
        """Settings of a sink URI and a ``sink`` section (kebab- or snake-case keys).

        The URI wins over the section. ``case_sensitive`` is about the patterns of dispatchers, of
        which a database needs the target's names only; ``merging``: tables may share one. Raises an
        :class:`InvalidError` with one hint for a bad URI, an unknown key or a value of the wrong
        type. No message carries a password.
        """
        uri = SinkUri.parse(
            sink_uri, ALL_SCHEMES, _EXAMPLE, (*option_names(cls), *_LATER, *_WITHOUT_EFFECT)
        )
        fields, shown = _from_config(sink_config or {}) | _from_uri(uri), uri.shown
        fields = known(fields, cls, shown, later=_LATER, without_effect=_WITHOUT_EFFECT)
        for name in ("timeout", "read-timeout", "write-timeout"):
            if name in fields:
                fields[name] = seconds(name, fields[name], shown)
        for name in _WORDS:
            if isinstance(fields.get(name), str):
                fields[name] = fields[name].lower()
        if "dispatchers" in fields:
            fields["dispatchers"] = read_dispatchers(fields["dispatchers"])
        settings = validated(cls, fields, shown)
        settings._names = TargetRouter.of(
            settings.dispatchers, case_sensitive=case_sensitive, merging=merging
        )
        return settings

    def by_name(self) -> MysqlSettings:
        """With SQL text, whose columns are named, for tables that change while rows come."""
        found = self.model_copy(update={"apply": Apply.SQL})
        found._changing = True
        return found

    @property
    def changing(self) -> bool:
        """Whether the target's tables may change while rows come that have no new version."""
        return self._changing

    @property
    def names(self) -> TargetRouter:
        """Which names tables have at the target."""
        return self._names

    def given(self, schema: str, table: str) -> Given:
        """Columns of the target that rows of a table have one value of, from its names."""
        return given_columns(self.dispatchers, self._names, schema, table)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.ssl_cert is None) != (self.ssl_key is None):
            raise ValueError("ssl-cert and ssl-key belong together")
        if not self.exactly_once and self.apply is Apply.ROWS:
            raise ValueError("exactly-once=false repeats rows, which row images cannot: apply=sql")
        if self.time_zone:
            try:
                ZoneInfo(self.time_zone)
            except (KeyError, ValueError, OSError):
                raise ValueError(f"time-zone {self.time_zone!r} is not known") from None
        return self

    @property
    def repeatable(self) -> bool:
        """Whether statements must bear being run twice."""
        return self.safe_mode or not self.exactly_once

    @property
    def given_password(self) -> SecretStr:
        """The password, or what it refers to now. Raises SecretUnusable."""
        return SecretStr(secret_refs.resolved(self.password.get_secret_value()))

    @property
    def decoded_password(self) -> SecretStr | None:
        """The password read as base64 of text, as TiCDC allows it; None if it is none."""
        try:
            text = base64.b64decode(self.given_password.get_secret_value(), validate=True).decode()
        except (binascii.Error, ValueError):
            return None
        return SecretStr(text) if text else None

    @property
    def address(self) -> str:
        """``host:port``, which names the target in errors."""
        return f"{self.host}:{self.port}"


def _from_uri(uri: SinkUri) -> dict[str, Any]:
    parts = uri.parts
    try:
        port = parts.port
    except ValueError:
        raise uri.error("the port is not a number below 65536") from None
    if parts.scheme in _OTHER_SCHEMES:
        raise SinkOptionNotSupported(
            f"{parts.scheme}: TiDB as a target is not supported yet",
            object=uri.shown,
            hint="deliver to MySQL or MariaDB",
        )
    if not parts.hostname:
        raise uri.error("no host")
    if parts.path not in ("", "/"):
        raise uri.error(f"a schema ({parts.path}) is not used: rows name their own")
    fields = dict(uri.parameters)
    for name in ("host", "port", "user", "password"):
        if name in fields:
            raise uri.error(f"parameter {name} belongs before the host")
    if parts.scheme.endswith("+ssl"):
        fields.setdefault("ssl-mode", "verify_identity")
    fields |= {
        "host": parts.hostname,
        "user": unquote(parts.username or "root"),
        "password": unquote(parts.password or ""),
    }
    return fields | ({"port": port} if port is not None else {})


def _from_config(config: Mapping[str, Any]) -> dict[str, Any]:
    fields = section(config, "mysql-config", _CONFIG_NAMES)
    for name in ("host", "port", "user", "password"):
        if name in fields:
            raise SinkUnknownOption(
                f"unknown option {name}", object="sink", hint="give it in the sink URI"
            )
    return fields
