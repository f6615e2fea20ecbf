"""Which tables a changefeed takes: ``filter.rules`` in TiCDC's syntax."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.base.matcher import TableMatcher, parse_matcher

# Never replicated, whatever the rules say: the servers' own schemas and the ledger's.
SYSTEM_SCHEMAS = frozenset(
    {
        "mysql",
        "information_schema",
        "performance_schema",
        "sys",
        "metrics_schema",
        "inspection_schema",
        "lightning_task_info",
        "dm_meta",
        "tidb_cdc",
        "tidegate",
    }
)

DEFAULT_RULES = ("*.*",)


class TableRules:
    """Compiled rules; the last match wins, system schemas never match.

    Raises ``TG:ErrFilterRuleInvalid`` for a rule that cannot be read.
    """

    def __init__(
        self, rules: Sequence[str] = DEFAULT_RULES, *, case_sensitive: bool = False
    ) -> None:
        self._matcher: TableMatcher = parse_matcher(rules, case_sensitive=case_sensitive)

    def matches(self, schema: str, table: str) -> bool:
        """Whether the table is replicated."""
        if schema.lower() in SYSTEM_SCHEMAS:
            return False
        return self._matcher.matches(schema, table)

    def matches_schema(self, schema: str) -> bool:
        """Whether any table of the schema could be replicated."""
        return schema.lower() not in SYSTEM_SCHEMAS and self._matcher.matches_schema(schema)
