"""Which tables a changefeed takes: ``filter.rules`` in TiCDC's syntax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cdc.base.matcher import FilterRuleInvalid, TableMatcher, TableRule, parse_rule
from cdc.base.nodes import plain
from cdc.base.refusals import Refusals

# Never replicated, whatever the rules say: the servers' own schemas, a cluster's and the ledger's.
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
        "__cdc__",
        "tidegate",
    }
)

DEFAULT_RULES = ("*.*",)


def matcher_at(rules: Sequence[str], place: str, *, case_sensitive: bool) -> TableMatcher:
    """Compiled rules of a list that stands at ``place`` in the configuration.

    Empty rules and comments (``# …``) are passed over. Raises ``TG:ErrFilterRuleInvalid`` with the
    place.
    """
    compiled: list[TableRule] = []
    refusals = Refusals()
    for i, text in enumerate(rules):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        with refusals.gathered():
            try:
                rule = parse_rule(text, case_sensitive=case_sensitive)
            except FilterRuleInvalid as e:
                raise FilterRuleInvalid(
                    e.message, object=f"{place}[{i}]", position=e.position, hint=e.hint
                ) from None
            compiled.append(replace(rule, index=i))
    refusals.check()
    return TableMatcher(tuple(compiled))


def is_system(schema: str) -> bool:
    """Whether nothing of it is ever replicated."""
    return plain(schema).lower() in SYSTEM_SCHEMAS


class TableRules:
    """Compiled rules; the last match wins, system schemas never match.

    Raises ``TG:ErrFilterRuleInvalid`` for a rule that cannot be read.
    """

    def __init__(
        self, rules: Sequence[str] = DEFAULT_RULES, *, case_sensitive: bool = False
    ) -> None:
        # No rules at all mean all tables, as TiCDC reads an empty list.
        rules = rules or DEFAULT_RULES
        self._matcher = matcher_at(rules, "filter.rules", case_sensitive=case_sensitive)

    def matches(self, schema: str, table: str) -> bool:
        """Whether the table is replicated."""
        if is_system(schema):
            return False
        return self._matcher.matches(schema, table)

    def matches_all(self, names: Sequence[tuple[str, str]]) -> NDArray[np.bool_]:
        """The same for many tables at once: 100,000 under 100 rules take well below a second."""
        system = np.fromiter((is_system(s) for s, _ in names), np.bool_, len(names))
        return self._matcher.matches_all(names) & ~system

    def decides(self, schema: str, table: str) -> tuple[int, str]:
        """The index and text of the rule that decides about a table; (-1, "") for none."""
        rule = self._matcher.decides(schema, table)
        return (-1, "") if rule is None else (rule.index, rule.text)

    def matches_schema(self, schema: str) -> bool:
        """Whether any table of the schema could be replicated."""
        return not is_system(schema) and self._matcher.matches_schema(schema)
