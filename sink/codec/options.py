"""The options of all message formats, as a sink's URI and configuration give them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from sink.dispatch.settings import ColumnSelectorSettings, DispatcherSettings


class FormatOptions(BaseModel):
    """What formats take of a sink's options; keys in kebab-case, as TiCDC's.

    A sink's own settings extend it. ``sink.codec.protocols`` says which protocol has which option.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=False,
        hide_input_in_errors=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    topic: str
    dispatchers: tuple[DispatcherSettings, ...] = ()
    column_selectors: tuple[ColumnSelectorSettings, ...] = ()
    enable_tidb_extension: bool = False
    content_compatible: bool = False
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    handle_key_as_record_key: bool = False
    debezium_disable_schema: bool = False
    debezium_output_old_value: bool = True
