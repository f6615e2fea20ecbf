"""What the value expressions say of a row that somebody writes down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cdc.coord.feed_config import FeedConfig
from cdc.rows.batch import RowBatch
from cdc.schema.session import Session
from cdc.schema.table import Table
from filter.event_types import DELETE, INSERT, UPDATE
from filter.events import EventFilter, EventRule
from filter.explain import LEFT_OUT, Explainer, Explanation, Step
from filter.expr.rowfilter import Condition
from filter.row_image import RowInvalid, located_row

_OLD, _NEW = 0, 1
# The expression of each event, and the image that it looks at.
_EXPRESSIONS = {
    INSERT: (("ignore_insert_value_expr", _NEW),),
    UPDATE: (("ignore_update_old_value_expr", _OLD), ("ignore_update_new_value_expr", _NEW)),
    DELETE: (("ignore_delete_value_expr", _OLD),),
}
_SAID = {1: "ignored", 0: "deliver", -1: "deliver", 2: "error"}
_WHY = {1: "is true", 0: "is false", -1: "is NULL, which keeps the row", 2: "is out of range"}


def explain_row(
    config: FeedConfig, session: Session, table: Table, row: Mapping[str, Any]
) -> Explanation:
    """About a row as INSERT, as UPDATE and as DELETE.

    ``row`` has values by column, or ``{"old": {…}, "new": {…}}`` for an UPDATE alone. Raises
    ``TG:ErrRowInvalid``, or what an expression is refused for.
    """
    explainer = Explainer(config)
    about = explainer.table(table.schema, table.name, table)
    if about.verdict == LEFT_OUT:
        return about
    pair = row.keys() == {"old", "new"} and all(isinstance(v, Mapping) for v in row.values())
    old, new = (row["old"], row["new"]) if pair else (row, row)
    located = located_row(table, old, new)
    events = EventFilter(config.filter.event_filters, case_sensitive=config.case_sensitive)
    steps: list[Step] = [about.steps[0]]
    verdicts = []
    for event in (UPDATE,) if pair else (INSERT, UPDATE, DELETE):
        found = [s for s in about.steps if s.about == event and s.verdict == "ignored"]
        for rule in events.rules:
            if rule.applies(table.schema, table.name):
                found += _asked(rule, event, located, table, session, (old, new))
        deciding = next((s for s in found if s.verdict != "deliver"), None)
        verdicts.append(f"{event}: {deciding.verdict if deciding else 'deliver'}")
        nothing = Step(event, "deliver", "no event filter ignores it")
        steps += found or [nothing]
    return Explanation(f"a row of {table.full_name}", ", ".join(verdicts), tuple(steps))


def _asked(
    rule: EventRule,
    event: str,
    located: RowBatch,
    table: Table,
    session: Session,
    images: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> list[Step]:
    steps = []
    for key, image in _EXPRESSIONS[event]:
        text = getattr(rule.settings, key)
        if not text:
            continue
        condition = Condition(text, table, session, None)
        given = {name.lower() for name in images[image]}
        missing = [table.columns[i].name for i in condition.columns]
        missing = [name for name in missing if name.lower() not in given]
        kebab = key.replace("_", "-")
        if missing:
            raise RowInvalid(
                f"{kebab} looks at {', '.join(missing)}, which the row does not give",
                object=table.full_name,
                hint=f"add {missing[0]} to --row, null if it has no value",
            )
        state = int(condition.states(located, np.zeros(1, np.int64), image)[0])
        place = f"{rule.place}.{kebab}"
        steps.append(Step(event, _SAID[state], f"{text} {_WHY[state]}", place))
    if event == UPDATE and rule.settings.ignore_update_only_columns:
        steps.append(_only(rule, images))
    return steps


def _only(rule: EventRule, images: tuple[Mapping[str, Any], Mapping[str, Any]]) -> Step:
    old, new = ({k.lower(): v for k, v in image.items()} for image in images)
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    allowed = {name.lower() for name in rule.settings.ignore_update_only_columns}
    ignored = set(changed) <= allowed
    said = ", ".join(changed) or "nothing"
    place = f"{rule.place}.ignore-update-only-columns"
    return Step(UPDATE, "ignored" if ignored else "deliver", f"it changes {said}", place)
