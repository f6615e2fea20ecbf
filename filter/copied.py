"""Which tables have the rows copied that were there before: ``snapshot.tables``."""

from __future__ import annotations

from cdc.coord.feed_config import FeedConfig
from filter.rules import matcher_at


class CopiedTables:
    """Of the tables that a changefeed delivers, those that its snapshot takes.

    Raises ``TG:ErrFilterRuleInvalid`` for a pattern that cannot be read.
    """

    def __init__(self, config: FeedConfig) -> None:
        patterns = config.snapshot.tables
        self._matcher = (
            None
            if patterns is None
            else matcher_at(patterns, "snapshot.tables", case_sensitive=config.case_sensitive)
        )

    def __contains__(self, name: tuple[str, str]) -> bool:
        """Whether it takes ``(schema, table)``."""
        return self._matcher is None or self._matcher.matches(*name)
