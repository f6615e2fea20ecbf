"""Options of the debezium format, with TiCDC's names."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from sink.dispatch.settings import ColumnSelectorSettings, DispatcherSettings


class DebeziumSettings(BaseModel):
    """``name`` is what Debezium calls the topic prefix: schemas are named by it.

    Of ``dispatchers`` the names count that the target knows a table by; ``column_selectors`` say
    which columns are written.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    debezium_disable_schema: bool = False
    debezium_output_old_value: bool = True
    dispatchers: tuple[DispatcherSettings, ...] = ()
    column_selectors: tuple[ColumnSelectorSettings, ...] = ()
    case_sensitive: bool = False
    merging: bool = False
