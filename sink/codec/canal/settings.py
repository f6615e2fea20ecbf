"""Settings of message formats, with TiCDC's names and defaults."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sink.dispatch.settings import ColumnSelectorSettings, DispatcherSettings


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class CanalSettings(BaseModel):
    """Options of canal-json. Keys are accepted with hyphens (TiCDC's TOML) or underscores.

    Of ``dispatchers`` the names count that the target knows a table by; ``column_selectors`` say
    which columns are written.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=_kebab, populate_by_name=True
    )

    enable_tidb_extension: bool = False
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    content_compatible: bool = False
    handle_key_as_record_key: bool = False
    dispatchers: tuple[DispatcherSettings, ...] = ()
    column_selectors: tuple[ColumnSelectorSettings, ...] = ()
    case_sensitive: bool = False
    merging: bool = False
    time_zone: str = Field(default="UTC", description="IANA name; TIMESTAMP values are shown in it")

    @property
    def old_changed_only(self) -> bool:
        """Whether ``old`` holds the changed columns only, as official Canal does."""
        return self.only_output_updated_columns or self.content_compatible
