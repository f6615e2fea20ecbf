"""Settings of a binlog sink: its URI and the ``sink`` section of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, model_validator

from cdc.base import egress
from cdc.base.hosts import is_loopback
from sink.binlog.streams import Split, StreamsFolder
from sink.dispatch.read import read_dispatchers
from sink.dispatch.settings import DispatcherSettings
from sink.dispatch.target import TargetRouter
from sink.uri import SinkUri, known, option_names, seconds, section, validated

SCHEMES: Final = ("binlog",)
_EXAMPLE = "binlog:///data/binlogs?name=binlog"
# Options of TiCDC's sinks that mean something we do not do.
_LATER = frozenset({"protocol", "column-selectors", "transaction-atomicity"})
_TIMES = ("flush-interval", "retention")


@dataclass(frozen=True)
class Listen:
    """Where replicas are served: the first stream at ``port``, the next ones behind it."""

    host: str
    port: int
    user: str
    password: SecretStr
    server_id: int
    cert: str | None
    key: str | None


class BinlogSettings(BaseModel):
    """A binlog sink (keys in kebab-case). Times are in seconds; ``retention`` 0 keeps all files."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=False,
        hide_input_in_errors=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    folder: Path
    name: str = Field(default="binlog", pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\-]{0,63}$")
    file_size: int = Field(default=128 << 20, ge=4 << 10, le=1 << 30)
    flush_interval: float = Field(default=0.0, ge=0, le=600)
    retention: float = Field(default=0.0, ge=0)
    streams: int = Field(default=1, ge=1, le=64)
    split: Split = Split.TABLE
    listen: str | None = None
    listen_user: str = Field(default="replica", min_length=1, max_length=80)
    listen_password: SecretStr | None = None
    listen_cert: str | None = None
    listen_key: str | None = None
    listen_server_id: int | None = Field(default=None, ge=1, lt=1 << 31)
    listen_tls: bool = True
    dispatchers: tuple[DispatcherSettings, ...] = ()
    _names: TargetRouter = PrivateAttr(default_factory=TargetRouter)

    @classmethod
    def parse(
        cls,
        sink_uri: str,
        sink_config: Mapping[str, Any] | None = None,
        *,
        case_sensitive: bool = False,
        merging: bool = False,
    ) -> Self:
        """Settings of a sink URI and a ``sink`` section; the URI wins over the section.

        Of dispatchers only the target's names are used. Raises an ``InvalidError`` with one hint.
        """
        uri = SinkUri.parse(sink_uri, SCHEMES, _EXAMPLE, (*option_names(cls), *_LATER))
        if uri.parts.netloc not in ("", "localhost"):
            raise uri.error("a folder of another host cannot be written to: write three slashes")
        folder = Path(unquote(uri.parts.path))
        if folder == Path("/") or ".." in folder.parts or not folder.is_absolute():
            raise uri.error("no folder, or not an absolute one")
        egress.installed().check_sink_folder(str(folder))
        fields = section(sink_config or {}, "binlog-config") | uri.parameters
        if "dispatchers" in fields:
            fields["dispatchers"] = read_dispatchers(fields["dispatchers"])
        for name in _TIMES:
            if name in fields:
                fields[name] = seconds(name, fields[name], uri.shown)
        fields = known(fields, cls, uri.shown, later=_LATER, without_effect=())
        settings = validated(cls, fields | {"folder": folder}, uri.shown)
        settings._names = TargetRouter.of(
            settings.dispatchers, case_sensitive=case_sensitive, merging=merging
        )
        return settings

    @model_validator(mode="after")
    def _can_listen(self) -> Self:
        if self.listen is None:
            given = sorted(n for n in self.model_fields_set if n.startswith("listen_"))
            if given:
                raise ValueError(f"{given[0].replace('_', '-')} needs listen")
            return self
        host, _, port = self.listen.rpartition(":")
        if not host or not (port.isascii() and port.isdigit()):
            raise ValueError("listen is not HOST:PORT")
        if not 0 < int(port) <= 65536 - self.streams:
            raise ValueError("listen has a port that is none, or not for each stream")
        if self.listen_password is None or not self.listen_password.get_secret_value():
            raise ValueError("listen needs listen-password")
        if self.listen_server_id is None:
            raise ValueError("listen needs listen-server-id, which is none of the replicas'")
        if (self.listen_cert is None) != (self.listen_key is None):
            raise ValueError("listen-cert and listen-key belong together")
        if self.listen_tls and self.listen_cert is None and not is_loopback(host):
            raise ValueError(
                "to listen to others takes listen-cert and listen-key, or listen-tls=false if all"
                " who can connect are to be trusted"
            )
        return self

    @property
    def listening(self) -> Listen | None:
        """Where replicas are served; None if they are not."""
        if self.listen is None or self.listen_password is None or self.listen_server_id is None:
            return None
        host, _, port = self.listen.rpartition(":")
        return Listen(
            host.strip("[]"), int(port), self.listen_user, self.listen_password,
            self.listen_server_id, self.listen_cert, self.listen_key,
        )  # fmt: skip

    @property
    def shared(self) -> StreamsFolder:
        """The folder that the streams share."""
        return StreamsFolder(self.folder, self.streams, self.split)

    @property
    def names(self) -> TargetRouter:
        """Which names tables have in the files."""
        return self._names
