"""Settings of ``cdc server``: a TOML file (kebab-case keys), over which flags win."""

from __future__ import annotations

import re
import ssl
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cdc.base.egress import Egress
from cdc.base.errors import InvalidError
from cdc.base.redaction import RedactMode
from cdc.changelog.settings import ChangelogSettings
from cdc.coord.opening import EMBEDDED, check_address
from cdc.server.log_server import LogServerSettings
from cdc.server.tracing import TracingSettings
from cdc.source.settings import SourceSettings
from processor.settings import ProcessorSettings

_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[^:\s\[\]]+):(?P<port>\d{1,5})\Z")
_SECTIONED = {
    "spark_master": ("processor", "spark_master"),
    "ca": ("security", "ca_path"),
    "cert": ("security", "cert_path"),
    "key": ("security", "key_path"),
    "cert_allowed_cn": ("security", "cert_allowed_cn"),
}
_CLUSTER = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*\Z")


class ServerConfigInvalid(InvalidError):
    """A settings file or flag of the server is wrong."""

    code = "TG:ErrServerConfigInvalid"


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class LineFormat(StrEnum):
    """How a log line is written."""

    TEXT = "text"
    JSON = "json"


class LogFileSettings(BaseModel):
    """When a log file is closed, and how many closed ones stay; names and meaning are TiCDC's.

    ``max_size`` in MiB, 0 for no limit; ``max_days`` and ``max_backups`` 0 keep all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_size: int = Field(default=300, ge=0)
    max_days: int = Field(default=0, ge=0)
    max_backups: int = Field(default=0, ge=0)


class LogSettings(BaseModel):
    """How the server logs; ``levels`` of single parts (``cdc.server.logging_setup.LOGGERS``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: LineFormat = LineFormat.TEXT
    file: LogFileSettings = Field(default_factory=LogFileSettings)
    levels: dict[str, LogLevel] = Field(default_factory=dict)


class OwnerSettings(BaseModel):
    """Backing off of a changefeed that meets a transient error, in seconds.

    ``even_after``: how long the captures of a cluster must have had unevenly many upstreams before
    one is moved for that, in seconds; 0: never.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    error_backoff_first: float = Field(default=10.0, gt=0)
    error_backoff_max: float = Field(default=600.0, gt=0)
    even_after: float = Field(default=60.0, ge=0)


class SecuritySettings(BaseModel):
    """Who may reach the API, and how; file names as in TiCDC's ``[security]``.

    With ``cert_path`` and ``key_path`` the API speaks HTTPS; with ``ca_path`` it also asks every
    client for a certificate of that authority, with ``cert_allowed_cn`` one of these names.
    ``egress``: what users may have the server reach. ``redact_info_log``: what logs show of user
    data, as TiDB's setting of this name; true is ``on``, false ``off``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ca_path: Path | None = None
    cert_path: Path | None = None
    key_path: Path | None = None
    cert_allowed_cn: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    redact_info_log: RedactMode = RedactMode.OFF
    egress: Egress = Field(default_factory=Egress)

    @field_validator("redact_info_log", mode="before")
    @classmethod
    def _mode_of_flag(cls, value: object) -> object:
        if isinstance(value, bool):
            return RedactMode.ON if value else RedactMode.OFF
        return value

    @model_validator(mode="after")
    def _whole(self) -> SecuritySettings:
        if (self.cert_path is None) != (self.key_path is None):
            raise ValueError("cert-path and key-path go together")
        if self.ca_path is not None and self.cert_path is None:
            raise ValueError("ca-path needs cert-path and key-path")
        if self.cert_allowed_cn and self.ca_path is None:
            raise ValueError("cert-allowed-cn needs ca-path")
        return self

    def tls(self, *, clients: bool = True) -> ssl.SSLContext | None:
        """The API's TLS context, None for plain HTTP. Raises :class:`ServerConfigInvalid`.

        Without ``clients`` none is asked for a certificate.
        """
        if self.cert_path is None:
            return None
        files = (self.cert_path, self.key_path, self.ca_path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.cert_path, self.key_path)
            if clients and self.ca_path is not None:
                context.load_verify_locations(self.ca_path)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as e:
            raise ServerConfigInvalid(
                f"security: TLS files cannot be used: {e.strerror or type(e).__name__}",
                object=", ".join(str(p) for p in files if p),
                hint="give PEM files that the server's user can read: a certificate with its key",
            ) from None
        return context


class ServerSettings(BaseModel):
    """All settings of one capture.

    ``store`` is the address of the coordination store (``cdc.coord.opening``); it may hold a
    password.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path
    addr: str = "127.0.0.1:8300"
    advertise_addr: str = ""
    store: str = Field(default=EMBEDDED, repr=False)
    cluster_id: str = "default"
    log_level: LogLevel = LogLevel.INFO
    log_file: Path | None = None
    log: LogSettings = Field(default_factory=LogSettings)
    capture_session_ttl: float = Field(default=10.0, ge=5.0)
    security: SecuritySettings = Field(default_factory=SecuritySettings)
    owner: OwnerSettings = Field(default_factory=OwnerSettings)
    changelog: ChangelogSettings = Field(default_factory=ChangelogSettings)
    source: SourceSettings = Field(default_factory=SourceSettings)
    processor: ProcessorSettings = Field(default_factory=ProcessorSettings)
    log_server: LogServerSettings = Field(default_factory=LogServerSettings)
    tracing: TracingSettings = Field(default_factory=TracingSettings)

    @field_validator("addr", "advertise_addr")
    @classmethod
    def _address(cls, value: str) -> str:
        found = _ADDRESS.match(value)
        if value and (found is None or int(found["port"]) > 65535):
            raise ValueError(f"{value!r} is not host:port")
        return value

    @field_validator("store")
    @classmethod
    def _store(cls, value: str) -> str:
        return check_address(value)

    @field_validator("cluster_id")
    @classmethod
    def _cluster(cls, value: str) -> str:
        if not _CLUSTER.match(value) or len(value) > 128:
            raise ValueError("letters, digits and single hyphens, at most 128")
        return value

    @property
    def copying_processor(self) -> ProcessorSettings:
        """Those of the processor; of the disk it leaves as much as the log, if it is not told."""
        if self.processor.copy_reserve_bytes is not None:
            return self.processor
        reserve = self.changelog.free_space_reserve_bytes
        return self.processor.model_copy(update={"copy_reserve_bytes": reserve})

    @property
    def host(self) -> str:
        """Where the API listens."""
        return self.addr.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The API's port; 0 takes a free one."""
        return int(self.addr.rpartition(":")[2])


def load(path: Path | None, flags: Mapping[str, Any]) -> ServerSettings:
    """Settings of a TOML file and of flags; ``None`` among the flags means not given.

    Some flags stand for a key of a section (``_SECTIONED``). Raises :class:`ServerConfigInvalid`
    that names the wrong key.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = _snake(tomllib.loads(path.read_text("utf-8")))
        except (OSError, UnicodeDecodeError) as e:
            raise ServerConfigInvalid(f"cannot be read: {e}", object=str(path)) from None
        except tomllib.TOMLDecodeError as e:
            raise ServerConfigInvalid(f"is not TOML: {e}", object=str(path)) from None
    given = {k: v for k, v in flags.items() if v is not None}
    for flag, (section, key) in _SECTIONED.items():
        if flag in given:
            values[section] = dict(values.get(section, {})) | {key: given.pop(flag)}
    try:
        return ServerSettings.model_validate(values | given)
    except ValidationError as e:
        first = e.errors(include_input=False, include_url=False, include_context=False)[0]
        name = ".".join(str(p).replace("_", "-") for p in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            what = "is not a setting"
        hint = "give --data-dir" if name == "data-dir" else f"correct or remove {name}"
        raise ServerConfigInvalid(
            f"{name}: {what}", object=str(path or "settings"), hint=hint
        ) from None


def _snake(value: Any) -> Any:
    # Spark's own configuration keys are data, not names of ours.
    if isinstance(value, dict):
        out = {k.replace("-", "_"): v for k, v in value.items()}
        return {k: v if k == "spark_conf" else _snake(v) for k, v in out.items()}
    return value
