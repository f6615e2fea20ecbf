"""Settings of a blackhole: the format that rows are encoded in before they are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sink.codec.options import FormatOptions
from sink.codec.protocols import Protocol, check_protocol
from sink.dispatch.read import read_column_selectors, read_dispatchers
from sink.uri import SinkUri, known, option_names, section, validated

SCHEMES: Final = ("blackhole",)
_EXAMPLE = "blackhole://?protocol=canal-json"


class BlackholeSettings(FormatOptions):
    """``blackhole://``, with the options of formats; ``protocol`` is canal-json by default."""

    topic: str = "blackhole"
    protocol: Protocol = Protocol.CANAL_JSON

    @classmethod
    def parse(
        cls, sink_uri: str, sink_config: Mapping[str, Any] | None = None
    ) -> BlackholeSettings:
        """Settings of a sink URI and a ``sink`` section; the URI wins over the section.

        Raises an ``InvalidError`` with one hint.
        """
        uri = SinkUri.parse(sink_uri, SCHEMES, _EXAMPLE, option_names(cls))
        fields: dict[str, Any] = {"protocol": Protocol.CANAL_JSON.value}
        fields |= section(sink_config or {}, "debezium") | uri.parameters
        check_protocol(fields, uri.shown)
        if "dispatchers" in fields:
            fields["dispatchers"] = read_dispatchers(fields["dispatchers"])
        if "column-selectors" in fields:
            fields["column-selectors"] = read_column_selectors(fields["column-selectors"])
        fields = known(fields, cls, uri.shown, later=(), without_effect=())
        return validated(cls, fields, uri.shown)
