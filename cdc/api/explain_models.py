"""Bodies of questions about a configuration, and of their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from filter.explain import Explanation


class ExplainFilter(BaseModel):
    """``POST /filter/explain``: about a table, a statement, or all tables of an upstream.

    ``schema`` is the default database of ``ddl``. With an upstream its definitions are looked at.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    replica_config: dict[str, Any] = Field(default_factory=dict)
    sink_uri: str = ""
    upstream: str = ""
    table: str = ""
    ddl: str = ""
    schema_name: str = Field(default="", alias="schema")


class ExplainedStep(BaseModel):
    """One thing that a rule decided; ``place`` is the rule in the configuration."""

    about: str
    verdict: str
    why: str
    place: str


class TableVerdict(BaseModel):
    """What happens to a table; empty ``target``: it keeps its name."""

    table: str
    verdict: str
    why: str
    place: str
    topic: str
    target: str


class ExplanationOut(BaseModel):
    """Answer of ``POST /filter/explain``; ``tables`` where an upstream alone was given."""

    subject: str
    verdict: str
    steps: list[ExplainedStep]
    tables: list[TableVerdict] | None = None

    @classmethod
    def of(cls, found: Explanation) -> ExplanationOut:
        """From the filter's form."""
        steps = [
            ExplainedStep(about=s.about, verdict=s.verdict, why=s.why, place=s.place)
            for s in found.steps
        ]
        return cls(subject=found.subject, verdict=found.verdict, steps=steps)


class TableNameOut(BaseModel):
    """A table, in TiCDC's words."""

    database_name: str
    table_name: str


class TablesOfChangefeed(BaseModel):
    """Answer of ``POST /verify_table``."""

    ineligible_tables: list[TableNameOut]
    eligible_tables: list[TableNameOut]


class AllTables(TablesOfChangefeed):
    """Answer of ``POST /get_all_tables``; ``all_tables``: also those that no rule matches."""

    all_tables: list[TableNameOut]
