"""Settings of a file sink: its URI and the ``sink`` section of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from pydantic import Field

from cdc.base import egress
from sink.codec.options import FormatOptions
from sink.codec.protocols import FORMATS, Protocol, check_protocol
from sink.dispatch.read import read_column_selectors
from sink.errors import SinkOptionNotSupported
from sink.uri import SinkUri, known, option_names, seconds, section, validated

SCHEMES: Final = ("file",)
_EXAMPLE = "file:///data/changes?protocol=canal-json"
# Lines have no place for a key.
_USABLE = tuple(protocol for protocol, form in FORMATS.items() if not form.keys)
# Options of TiCDC that mean something we do not do: silence about them would be a lie.
_LATER = frozenset(
    {
        *("csv", "date-separator", "enable-partition-separator", "transaction-atomicity"),
        *("file-index-width", "file-index-digit", "file-expiration-days", "file-cleanup-cron-spec"),
        *("output-column-id", "output-raw-change-event", "use-table-id-as-path"),
    }
)
# Options of TiCDC that are hints to its own implementation: accepted, without effect.
_WITHOUT_EFFECT = frozenset(
    {
        *("worker-count", "flush-concurrency", "encoder-concurrency", "spool-disk-quota"),
        "terminator",
    }
)


class FileSettings(FormatOptions):
    """A file sink, as TiCDC's sink URI and ``sink`` section describe it (keys in kebab-case)."""

    topic: str = ""
    folder: Path
    protocol: Protocol
    file_size: int = Field(default=64 << 20, ge=1 << 10, le=512 << 20)
    flush_interval: float = Field(default=5.0, ge=0, le=600)

    @classmethod
    def parse(cls, sink_uri: str, sink_config: Mapping[str, Any] | None = None) -> FileSettings:
        """Settings of a sink URI and a ``sink`` section; the URI wins over the section.

        Raises an ``InvalidError`` with one hint.
        """
        options = (*option_names(cls), *_LATER, *_WITHOUT_EFFECT)
        uri = SinkUri.parse(sink_uri, SCHEMES, _EXAMPLE, options)
        if uri.parts.netloc not in ("", "localhost"):
            raise uri.error("a folder of another host cannot be written to: write three slashes")
        folder = Path(unquote(uri.parts.path))
        if folder == Path("/") or ".." in folder.parts or not folder.is_absolute():
            raise uri.error("no folder, or not an absolute one")
        egress.installed().check_sink_folder(str(folder))
        fields = section(sink_config or {}, "cloud-storage-config") | uri.parameters
        check_protocol(fields, uri.shown, _USABLE)
        if "column-selectors" in fields:
            fields["column-selectors"] = read_column_selectors(fields["column-selectors"])
        if "flush-interval" in fields:
            fields["flush-interval"] = seconds(
                "flush-interval", fields["flush-interval"], uri.shown
            )
        for name in ("topic", "dispatchers", "handle-key-as-record-key"):
            if fields.pop(name, None):
                raise SinkOptionNotSupported(
                    f"files have no {name}", object=uri.shown, hint=f"remove {name}"
                )
        fields = known(fields, cls, uri.shown, later=_LATER, without_effect=_WITHOUT_EFFECT)
        return validated(cls, fields | {"folder": folder}, uri.shown)
