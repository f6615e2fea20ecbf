"""The message formats of the house: a row each.

A sink that sends messages makes its codec, its checks and its hints of this table; the pages about
formats are held to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from sink.codec.canal.codec import CanalCodec
from sink.codec.canal.settings import CanalSettings
from sink.codec.contract import MessageCodec
from sink.codec.debezium.codec import DebeziumCodec
from sink.codec.debezium.settings import DebeziumSettings
from sink.codec.maxwell.codec import MaxwellCodec
from sink.codec.maxwell.settings import MaxwellSettings
from sink.codec.options import FormatOptions
from sink.errors import SinkOptionNotSupported, SinkProtocolNotSupported, SinkUnknownProtocol


class Protocol(StrEnum):
    """Message formats that we write."""

    CANAL_JSON = "canal-json"
    DEBEZIUM = "debezium"
    MAXWELL = "maxwell"


KNOWN_PROTOCOLS: Final = frozenset(
    {
        *("default", "open-protocol", "avro", "canal", "simple"),
        *("debezium-avro", "csv", "craft"),
    }
)
"""What TiCDC writes, some of it not ours yet."""


@dataclass(frozen=True, slots=True)
class Format:
    """What is known of a protocol before its codec is made.

    ``codec`` makes it of a sink's options and of whether table names are case-sensitive, and
    whether several tables may become one.
    ``options`` are the names of those that the protocol reads, of the ones that not all do.
    ``watermarks`` says whether it has watermarks under these options, ``keys`` whether records have
    keys. With ``changes_apart`` schema changes go to the sink's own topic only, not among the rows.
    """

    codec: Callable[[FormatOptions, bool, bool], MessageCodec[Any]]
    options: frozenset[str]
    watermarks: Callable[[FormatOptions], bool]
    keys: bool
    changes_apart: bool


def _canal(options: FormatOptions, case_sensitive: bool, merging: bool) -> MessageCodec[Any]:
    settings = CanalSettings(
        enable_tidb_extension=options.enable_tidb_extension,
        only_output_updated_columns=options.only_output_updated_columns,
        delete_only_output_handle_key_columns=options.delete_only_output_handle_key_columns,
        content_compatible=options.content_compatible,
        handle_key_as_record_key=options.handle_key_as_record_key,
        dispatchers=options.dispatchers,
        column_selectors=options.column_selectors,
        case_sensitive=case_sensitive,
        merging=merging,
    )
    return CanalCodec(settings)


def _debezium(options: FormatOptions, case_sensitive: bool, merging: bool) -> MessageCodec[Any]:
    settings = DebeziumSettings(
        name=options.topic,
        debezium_disable_schema=options.debezium_disable_schema,
        debezium_output_old_value=options.debezium_output_old_value,
        dispatchers=options.dispatchers,
        column_selectors=options.column_selectors,
        case_sensitive=case_sensitive,
        merging=merging,
    )
    return DebeziumCodec(settings)


def _maxwell(options: FormatOptions, case_sensitive: bool, merging: bool) -> MessageCodec[Any]:
    settings = MaxwellSettings(
        dispatchers=options.dispatchers,
        column_selectors=options.column_selectors,
        case_sensitive=case_sensitive,
        merging=merging,
    )
    return MaxwellCodec(settings)


FORMATS: Final[Mapping[Protocol, Format]] = MappingProxyType(
    {
        Protocol.CANAL_JSON: Format(
            codec=_canal,
            options=frozenset(
                {
                    *("enable-tidb-extension", "content-compatible", "handle-key-as-record-key"),
                    *("only-output-updated-columns", "delete-only-output-handle-key-columns"),
                }
            ),
            watermarks=lambda options: options.enable_tidb_extension,
            keys=False,
            changes_apart=False,
        ),
        Protocol.DEBEZIUM: Format(
            codec=_debezium,
            options=frozenset({"debezium-disable-schema", "debezium-output-old-value"}),
            watermarks=lambda _: False,
            keys=True,
            changes_apart=True,
        ),
        Protocol.MAXWELL: Format(
            codec=_maxwell,
            options=frozenset(),
            watermarks=lambda _: False,
            keys=True,
            changes_apart=True,
        ),
    }
)


def check_protocol(
    given: Mapping[str, Any], shown: str, usable: Collection[Protocol] = tuple(FORMATS)
) -> None:
    """Refuse options whose ``protocol`` is none of ``usable``, or not one that has the others.

    ``shown`` is how errors show where they are from.
    """
    name = given.get("protocol", "")
    hint = "use " + " or ".join(f"protocol={known}" for known in usable)
    if name in usable:
        other = _foreign_option(Protocol(name), given)
        if other is not None:
            raise SinkOptionNotSupported(
                f"protocol {name} has no option {other}", object=shown, hint=f"remove {other}"
            )
        return
    if name in KNOWN_PROTOCOLS or name in FORMATS:
        raise SinkProtocolNotSupported(
            f"protocol {name} is not supported {'yet' if name in KNOWN_PROTOCOLS else 'here'}",
            object=shown,
            hint=hint,
        )
    said = f"unknown protocol {name!r}" if name else "no protocol is given"
    raise SinkUnknownProtocol(said, object=shown, hint=hint)


def _foreign_option(protocol: Protocol, given: Collection[str]) -> str | None:
    """The first of ``given`` names that is another protocol's option, and not this one's."""
    others = frozenset[str]().union(*(form.options for form in FORMATS.values()))
    return next((n for n in given if n in others - FORMATS[protocol].options), None)
