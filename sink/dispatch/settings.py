"""``sink.dispatchers`` as a user writes them."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class PartitionMode(StrEnum):
    """How rows of a table spread over the partitions of its topic."""

    TABLE = "table"
    INDEX_VALUE = "index-value"
    INDEX = "index"
    COLUMNS = "columns"
    TS = "ts"


class _Extract(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    target_column: str = Field(min_length=1)


class ExtractTable(_Extract):
    """DM's ``extract-table``: what the group of the expression takes from the table's name."""

    table_regexp: str


class ExtractSchema(_Extract):
    """DM's ``extract-schema``: the same of the database's name."""

    schema_regexp: str


class ExtractSource(_Extract):
    """DM's ``extract-source``: the same of the name of the upstream's node."""

    source_regexp: str


class DispatcherSettings(BaseModel):
    """One rule of ``sink.dispatchers``; the first whose ``matcher`` matches a table wins.

    ``partition`` (or its old name ``dispatcher``, never both): ``default`` and ``table`` send a
    table to one partition, ``index-value`` spreads by primary key or by the unique key
    ``index``, ``columns`` by the named columns, ``ts`` by commit ts. ``topic`` is a topic
    expression. ``target-schema`` and ``target-table`` are the names that the target knows the table
    by; of these the first rule that has any wins. The ``extract-*`` of that rule are columns of the
    target that no table has (``sink.dispatch.extracted``).
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    matcher: tuple[str, ...] = Field(min_length=1)
    partition: str = ""
    dispatcher: str = ""
    index: str = ""
    columns: tuple[str, ...] = ()
    topic: str = ""
    target_schema: str = ""
    target_table: str = ""
    extract_table: ExtractTable | None = None
    extract_schema: ExtractSchema | None = None
    extract_source: ExtractSource | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.partition and self.dispatcher:
            raise ValueError("'partition' and 'dispatcher' are the same option: give one of them")
        mode = self.mode
        if self.columns and mode is not PartitionMode.COLUMNS:
            raise ValueError("'columns' needs partition = \"columns\"")
        if mode is PartitionMode.COLUMNS and not self.columns:
            raise ValueError("partition = \"columns\" needs a list 'columns'")
        if any(not name for name in self.columns):
            raise ValueError("'columns' holds an empty name")
        if self.index and mode is not PartitionMode.INDEX_VALUE:
            raise ValueError("'index' needs partition = \"index-value\"")
        self._check_extracts()
        return self

    def _check_extracts(self) -> None:
        if self.extracts and not self.routes:
            raise ValueError("extract-* needs target-schema or target-table")
        named = [column.lower() for column, _ in self.extracts]
        if len(set(named)) < len(named):
            raise ValueError("two extract-* have one target-column")
        for column, text in self.extracts:
            try:
                groups = re.compile(text).groups
            except re.error as e:
                raise ValueError(f"the expression of {column} cannot be read: {e}") from None
            if groups != 1:
                raise ValueError(f"the expression of {column} must have one group: {text!r}")

    @property
    def extracts(self) -> tuple[tuple[str, str], ...]:
        """Target columns with the expressions that give their values."""
        found = []
        if self.extract_table is not None:
            found.append((self.extract_table.target_column, self.extract_table.table_regexp))
        if self.extract_schema is not None:
            found.append((self.extract_schema.target_column, self.extract_schema.schema_regexp))
        if self.extract_source is not None:
            found.append((self.extract_source.target_column, self.extract_source.source_regexp))
        return tuple(found)

    @property
    def routes(self) -> bool:
        """Whether it says under which names the target knows a table."""
        return bool(self.target_schema or self.target_table)

    @property
    def mode(self) -> PartitionMode:
        """The partition mode; ``default`` is ``table``. Raises ``ValueError`` if unknown."""
        text = (self.partition or self.dispatcher or "default").lower()
        if text == "default":
            return PartitionMode.TABLE
        if text in ("rowid", "index"):
            text = PartitionMode.INDEX_VALUE.value
        if text not in tuple(PartitionMode):
            raise ValueError(
                f"unknown partition {text!r}: use default, table, index-value, columns or ts"
            )
        return PartitionMode(text)


class ColumnSelectorSettings(BaseModel):
    """One rule of ``sink.column-selectors``; the first whose ``matcher`` matches a table wins.

    ``columns`` are patterns (``*``, ``?``, ``!``, ``/regex/``), of which the last that matches
    decides; a column that none matches is left out.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    matcher: tuple[str, ...] = Field(min_length=1)
    columns: tuple[str, ...] = Field(min_length=1)
