"""Under which names the target knows a table: ``target-schema`` and ``target-table``.

One table becomes one table: two that would become the same are refused. Rules look at the
upstream's names only, and change neither topics nor partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cdc.base.errors import DefiniteError, InvalidError
from cdc.base.matcher import FilterRuleInvalid, TableMatcher, parse_matcher
from sink.dispatch.settings import DispatcherSettings

Name = tuple[str, str]

MAX_NAME = 64
_EXPRESSION = re.compile(r"(?:[^{}]|\{schema\}|\{table\})+\Z")
_HOLE = re.compile(r"\{(schema|table)\}")


class RoutingRuleInvalid(InvalidError):
    """A target-schema or target-table that cannot be used."""

    code = "TG:ErrInvalidTableRoutingRule"


class RouteConflict(DefiniteError):
    """Two tables would become the same table of the target."""

    code = "TG:ErrTableRouteConflict"


class RoutingFailed(DefiniteError):
    """The routing rules do not give one name that a server could take."""

    code = "TG:ErrTableRoutingFailed"


@dataclass(frozen=True, slots=True)
class _Rule:
    index: int
    matcher: TableMatcher
    schema: str
    table: str


@dataclass(frozen=True)
class TargetRouter:
    """Compiled routing rules: the first that matches a table wins, others keep their names."""

    rules: tuple[_Rule, ...] = ()

    @classmethod
    def of(
        cls, dispatchers: Iterable[DispatcherSettings], *, case_sensitive: bool = False
    ) -> TargetRouter:
        """Of ``sink.dispatchers``; rules without a target are passed over.

        Raises :class:`RoutingRuleInvalid`.
        """
        rules = []
        for i, settings in enumerate(dispatchers):
            if settings.routes:
                rules.append(_compile(i, settings, case_sensitive))
        return cls(tuple(rules))

    def __bool__(self) -> bool:
        """Whether any table may get another name."""
        return bool(self.rules)

    def rule(self, schema: str, table: str) -> int:
        """The index in ``sink.dispatchers`` of the rule that names a table, or -1."""
        found = self._rule(schema, table)
        return -1 if found is None else found.index

    def target(self, schema: str, table: str) -> Name:
        """The table's name at the target. Raises :class:`RoutingFailed` if it is too long."""
        rule = self._rule(schema, table)
        if rule is None:
            return schema, table
        found = (
            _filled(rule.schema, schema, table) if rule.schema else schema,
            _filled(rule.table, schema, table) if rule.table else table,
        )
        for name in found:
            if len(name) > MAX_NAME or name != name.rstrip(" "):
                raise RoutingFailed(
                    f"{name!r} is no name that a server takes: at most {MAX_NAME} characters, and "
                    "no space at its end",
                    object=f"{schema}.{table}",
                    hint=f"correct sink.dispatchers[{rule.index}]",
                )
        return found

    def target_schema(self, schema: str) -> str:
        """The database that a statement about a whole database of the upstream is about.

        Raises :class:`RoutingFailed` unless the rules that look at the schema agree on one.
        """
        found = set()
        for rule in self.rules:
            if rule.matcher.matches_schema(schema):
                if "{table}" in rule.schema:
                    found |= {rule.schema, schema}
                else:
                    found.add(_filled(rule.schema, schema, "") if rule.schema else schema)
        if len(found) > 1:
            raise RoutingFailed(
                f"its tables go to several databases: {', '.join(sorted(found))}",
                object=schema,
                hint="carry the change of the database out at the target, then skip it here",
            )
        return found.pop() if found else schema

    def check(self, tables: Iterable[Name]) -> None:
        """Raise :class:`RouteConflict` if two of these tables would become one."""
        Targets(self).add(*tables)

    def _rule(self, schema: str, table: str) -> _Rule | None:
        return next((r for r in self.rules if r.matcher.matches(schema, table)), None)


@dataclass(frozen=True)
class Targets:
    """Which table of the upstream holds each name at the target, from change to change.

    Invariant: one table for each name. Every method returns the state behind the change.
    """

    router: TargetRouter
    holders: Mapping[Name, Name] = field(default_factory=dict)

    def add(self, *tables: Name) -> Targets:
        """Tables that are delivered from now on. Raises :class:`RouteConflict`."""
        holders = dict(self.holders)
        for table in tables:
            target = self.router.target(*table)
            holder = holders.setdefault(target, table)
            if holder != table:
                raise RouteConflict(
                    f"would become {_text(target)}, which {_text(holder)} is already",
                    object=_text(table),
                    hint="give them different names with {schema} and {table} in sink.dispatchers",
                )
        return Targets(self.router, holders)

    def drop(self, *tables: Name) -> Targets:
        """Tables that are gone: their names are free."""
        gone = set(tables)
        return Targets(self.router, {t: h for t, h in self.holders.items() if h not in gone})

    def rename(self, steps: Iterable[tuple[Name, Name]]) -> Targets:
        """Steps of one statement, so that names may be swapped. Raises :class:`RouteConflict`."""
        found: Targets = self
        for old, new in steps:
            found = found.drop(old).add(new)
        return found


def _compile(index: int, settings: DispatcherSettings, case_sensitive: bool) -> _Rule:
    place = f"sink.dispatchers[{index}]"
    for key, text in (
        ("target-schema", settings.target_schema),
        ("target-table", settings.target_table),
    ):
        if text and not _EXPRESSION.match(text):
            raise RoutingRuleInvalid(
                f"{text!r} holds something in braces that is neither {{schema}} nor {{table}}",
                object=f"{place}.{key}",
                hint="write literal text, {schema} and {table}",
            )
    try:
        matcher = parse_matcher(settings.matcher, case_sensitive=case_sensitive)
    except FilterRuleInvalid as e:
        raise RoutingRuleInvalid(e.message, object=f"{place}.matcher", hint=e.hint) from None
    return _Rule(index, matcher, settings.target_schema, settings.target_table)


def _filled(expression: str, schema: str, table: str) -> str:
    return _HOLE.sub(lambda m: schema if m[1] == "schema" else table, expression)


def _text(name: Name) -> str:
    return f"{name[0]}.{name[1]}"
