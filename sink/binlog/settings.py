"""Settings of a binlog sink: its URI and the ``sink`` section of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from cdc.base import egress
from sink.dispatch.read import read_dispatchers
from sink.dispatch.settings import DispatcherSettings
from sink.dispatch.target import TargetRouter
from sink.uri import SinkUri, known, option_names, seconds, section, validated

SCHEMES: Final = ("binlog",)
_EXAMPLE = "binlog:///data/binlogs?name=binlog"
# Options of TiCDC's sinks that mean something we do not do.
_LATER = frozenset({"protocol", "column-selectors", "transaction-atomicity"})
_TIMES = ("flush-interval", "retention")


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

    @property
    def names(self) -> TargetRouter:
        """Which names tables have in the files."""
        return self._names
