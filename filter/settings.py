"""The ``[filter]`` section: its model, and all of it compiled so that what is wrong is refused.

The model is plain data and stands in ``cdc.coord.feed_config``, since owner and processor are sent
it; what its texts mean is decided here.
"""

from __future__ import annotations

from cdc.base.refusals import Refusals
from cdc.coord.feed_config import EventFilterConfig, FilterConfig
from filter.events import EventFilter
from filter.rules import TableRules
from filter.transactions import Transactions

__all__ = ["EXPRESSIONS", "EventFilterConfig", "FilterConfig", "check_filter", "has_expressions"]

# What looks at values: the fields of a rule that need the tables' schema.
EXPRESSIONS = (
    "ignore_insert_value_expr",
    "ignore_update_old_value_expr",
    "ignore_update_new_value_expr",
    "ignore_delete_value_expr",
    "ignore_update_only_columns",
)


def has_expressions(rule: EventFilterConfig) -> bool:
    """Whether a rule looks at values."""
    return any(getattr(rule, key) for key in EXPRESSIONS)


def check_filter(config: FilterConfig, *, case_sensitive: bool) -> None:
    """Compile everything but value expressions, which need the tables' schema.

    Raises what is wrong with each list; its object is the place in the configuration.
    """
    refusals = Refusals()
    with refusals.gathered():
        TableRules(config.rules, case_sensitive=case_sensitive)
    with refusals.gathered():
        EventFilter(config.event_filters, case_sensitive=case_sensitive)
    with refusals.gathered():
        Transactions.of(config)
    refusals.check()
