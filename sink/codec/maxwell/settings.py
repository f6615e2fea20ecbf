"""Options of the maxwell format."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from sink.dispatch.settings import ColumnSelectorSettings, DispatcherSettings


class MaxwellSettings(BaseModel):
    """Of ``dispatchers`` the names count that the target knows a table by.

    ``column_selectors`` say which columns are written.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dispatchers: tuple[DispatcherSettings, ...] = ()
    column_selectors: tuple[ColumnSelectorSettings, ...] = ()
    case_sensitive: bool = False
    merging: bool = False
