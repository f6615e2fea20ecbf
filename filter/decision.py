"""All of the filter about one DDL: table rules, allow-list, renames, event filters.

What is ignored or discarded still changes the tracked schema, or rows behind it could not be read;
it only does not reach the sink.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from cdc.base.errors import DefiniteError
from cdc.base.nodes import is_qualified
from cdc.base.ts import Ts
from cdc.coord.feed_config import FeedConfig
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.table import Table
from filter.ddl_types import DdlTypes, Name, ddl_types
from filter.events import PASSES, EventFilter, EventVerdict
from filter.online import OnlineDdl
from filter.renames import Matches, judge, judge_moves
from filter.rules import TableRules
from filter.settings import has_expressions
from filter.transactions import Transactions
from sink.dispatch.read import read_dispatchers
from sink.dispatch.target import TargetRouter, Targets


class UnloggedRows(DefiniteError):
    """A statement that changes rows of which the binlog says nothing."""

    code = "TG:ErrUnloggedRows"


class Outcome(StrEnum):
    """What the filter says of a DDL, or of one of its tables."""

    DELIVER = "deliver"  # It goes to the sink.
    IGNORED = "ignored"  # An event filter keeps it from there.
    DISCARDED = "discarded"  # It is of a kind that is never replicated.
    OUTSIDE = "outside"  # filter.rules match nothing that it is about.
    ERROR = "error"  # It would make target and upstream differ: its tables stop.


@dataclass(frozen=True, slots=True)
class DDLPart:
    """One table of a DDL, or with an empty table name one schema."""

    name: Name
    outcome: Outcome
    why: str
    rule: int = -1


@dataclass(frozen=True, slots=True)
class Decision:
    """``outcome`` is DELIVER if any part is; ``delivered`` are those parts' names.

    ``steps`` are the steps of a rename that are delivered, ``left`` its tables that leave the
    rules.
    """

    types: DdlTypes
    outcome: Outcome
    why: str
    parts: tuple[DDLPart, ...] = ()
    steps: tuple[tuple[Name, Name], ...] = ()
    left: tuple[tuple[Name, Name], ...] = ()
    error: DefiniteError | None = None

    @property
    def delivered(self) -> tuple[Name, ...]:
        """Tables that the sink is told about, or schemas with an empty table name."""
        return tuple(p.name for p in self.parts if p.outcome is Outcome.DELIVER)


class DdlFilter:
    """The compiled filter of a changefeed. Raises the ``invalid`` errors of its parts."""

    _targets = TargetRouter()
    _by_value = False

    def __init__(self, config: FeedConfig) -> None:
        sensitive = config.case_sensitive
        dispatchers = read_dispatchers(config.sink.get("dispatchers", ()))
        self._targets = TargetRouter.of(
            dispatchers, case_sensitive=sensitive, merging=config.merging
        )
        self.rules = TableRules(config.filter.rules, case_sensitive=sensitive)
        self.events = EventFilter(config.filter.event_filters, case_sensitive=sensitive)
        self.online = OnlineDdl(config)
        self._transactions = Transactions.of(config.filter)
        self._by_value = any(has_expressions(rule) for rule in config.filter.event_filters)
        self._config = config

    @property
    def targets(self) -> TargetRouter:
        """Which names tables have at the target."""
        return self._targets

    def decide(
        self,
        sql: str,
        session: Session,
        table: Table | None = None,
        *,
        ts: Ts = 0,
        gtid: tuple[str, int] = ("", -1),
        hidden: Collection[Name] = (),
    ) -> Decision:
        """About one statement. Raises ``DDLNotUnderstood``.

        ``table`` is the table of an ALTER as it was before, where it is known; ``ts`` and ``gtid``
        (source, number) are those of its transaction. ``hidden`` are tables that are a tool's.
        """
        types = ddl_types(read_ddl(sql, session), table)

        def matches(schema: str, name: str) -> bool:
            return (schema, name) not in hidden and self.rules.matches(schema, name)

        ignored = self._transactions.ignores(ts, *gtid)
        if ignored:
            # Whatever it would do: this is how an operator gets past it.
            names = (*types.tables, *((schema, "") for schema in types.schemas))
            parts = tuple(DDLPart(name, Outcome.IGNORED, ignored) for name in names)
            return Decision(types, Outcome.IGNORED, ignored, parts)
        error = judge_moves(types.moves, matches) or self._unlogged(types, matches)
        renames = judge(types.renames, matches)
        error = error or renames.error
        if error is not None:
            parts = tuple(DDLPart(n, Outcome.ERROR, error.message) for n in types.tables)
            return Decision(types, Outcome.ERROR, error.message, parts, error=error)
        parts = tuple(self._part(name, types, sql, matches) for name in self._names(types))
        outcome, why = _summary(parts, types)
        gone = {p.name for p in parts if p.outcome is not Outcome.DELIVER}
        steps = tuple(step for step in renames.steps if _origin(step, renames.steps) not in gone)
        return Decision(types, outcome, why, parts, steps, renames.left)

    def conflict(self, names: Iterable[Name], made: Iterable[Name]) -> DefiniteError | None:
        """What is wrong with the target's names of the tables ``made`` by a statement, or None.

        ``names`` are all tables of the upstream behind it.
        """
        new = {_folded(name): name for name in made}
        if not new or not (self._targets or any(is_qualified(schema) for schema, _ in new)):
            return None
        listed = list(names)
        others = [n for n in listed if _folded(n) not in new]
        # The third name of a swap is gone again.
        present = [n for n in listed if _folded(n) in new]
        matching = self.rules.matches_all(others)
        held = (n for n, yes in zip(others, matching, strict=True) if yes)
        try:
            before = Targets(self._targets).add(*held)
            before.add(*(name for name in present if self.rules.matches(*name)))
        except DefiniteError as e:
            return e
        return None

    def delivered(self, schemas: Catalog, names: Iterable[Name]) -> list[Name]:
        """Of these tables those whose rows are delivered: no tool's, and not left out keyless."""
        listed = list(names)
        self.online.learn(listed)
        matching = zip(listed, self.rules.matches_all(listed), strict=True)
        found = (n for n, yes in matching if yes and not self.online.hides(schemas, *n))
        if not self._config.ignore_ineligible_table or self._config.force_replicate:
            return list(found)
        tables = ((n, schemas.table(*n)) for n in found)
        return [n for n, table in tables if table is not None and table.handle_key]

    def unfit(self, tables: Iterable[Table], session: Session) -> DefiniteError | None:
        """What keeps value expressions from tables as a statement leaves them, or None."""
        if self._by_value:
            # It loads the kernels, which nothing else here needs.
            from filter.passing import Passing

            passing = Passing(self._config, session)
            try:
                for table in tables:
                    passing.filters(table)
            except DefiniteError as e:
                return e
        return None

    def _unlogged(self, types: DdlTypes, matches: Matches) -> DefiniteError | None:
        matched = [n for n in types.tables if matches(*n)]
        if not types.unlogged or not matched:
            return None
        return UnloggedRows(
            f"{types.unlogged} changes rows, and the binlog does not have them",
            object=".".join(matched[0]),
            hint="create the changefeed anew, with the table's rows copied to the target",
        )

    def _names(self, types: DdlTypes) -> Iterable[Name]:
        if types.renames:
            # A name in the middle of a chain is no table of its own.
            steps = types.renames
            return tuple(old for i, (old, _) in enumerate(steps) if not _made(i, steps))
        return (*types.tables, *((schema, "") for schema in types.schemas))

    def _part(self, name: Name, types: DdlTypes, sql: str, matches: Matches) -> DDLPart:
        schema, table = name
        if table and not matches(schema, table):
            return DDLPart(name, Outcome.OUTSIDE, f"filter.rules do not match {schema}.{table}")
        if not table and not self.rules.matches_schema(schema):
            return DDLPart(name, Outcome.OUTSIDE, f"filter.rules match no table of {schema}")
        if types.discarded:
            return DDLPart(name, Outcome.DISCARDED, types.discarded)
        verdict = self.verdict(name, types, sql)
        if verdict.ignored:
            where = f"filter.event-filters[{verdict.rule}]: {verdict.why}"
            return DDLPart(name, Outcome.IGNORED, where, verdict.rule)
        return DDLPart(name, Outcome.DELIVER, "filter.rules match, and nothing ignores it")

    def verdict(self, name: Name, types: DdlTypes, sql: str) -> EventVerdict:
        """What the event filters say of a statement about one table, or one schema."""
        if types.discarded:
            return PASSES
        return self.events.verdict_ddl(name[0], name[1], types.types, sql)


def _folded(name: Name) -> Name:
    return name[0].lower(), name[1].lower()


def _made(index: int, steps: tuple[tuple[Name, Name], ...]) -> bool:
    """Whether an earlier step made the old name of this one."""
    old = steps[index][0]
    made = False
    for before, after in steps[:index]:
        made = (made and before != old) or after == old
    return made


def _origin(step: tuple[Name, Name], steps: tuple[tuple[Name, Name], ...]) -> Name:
    """The table's name before the statement."""
    name = step[0]
    for old, new in reversed(steps[: steps.index(step)]):
        if new == name:
            name = old
    return name


def _summary(parts: tuple[DDLPart, ...], types: DdlTypes) -> tuple[Outcome, str]:
    for outcome in (Outcome.DELIVER, Outcome.IGNORED, Outcome.DISCARDED, Outcome.OUTSIDE):
        for part in parts:
            if part.outcome is outcome:
                return outcome, part.why
    return Outcome.DISCARDED, types.discarded or f"{types.name} is about no table"
