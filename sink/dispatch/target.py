"""Under which names the target knows a table: ``target-schema`` and ``target-table``.

One table becomes one table: two that would become the same are refused, unless the changefeed has
a shard mode. Rules look at the upstream's names only. A table that no rule names keeps the name
that it has on its own server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cdc.base.errors import DefiniteError, InvalidError
from cdc.base.matcher import FilterRuleInvalid, TableMatcher, parse_matcher
from cdc.base.nodes import is_qualified, node_of, plain
from sink.dispatch.settings import DispatcherSettings

Name = tuple[str, str]

MAX_NAME = 64
_EXPRESSION = re.compile(r"(?:[^{}]|\{schema\}|\{table\}|\{node\})+\Z")
_HOLE = re.compile(r"\{(schema|table|node)\}")


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
    gives: bool = False


@dataclass(frozen=True)
class TargetRouter:
    """Compiled routing rules: the first that matches a table wins, others keep their names.

    ``merging``: several tables may become one, as a changefeed's shard mode says.
    """

    rules: tuple[_Rule, ...] = ()
    merging: bool = False

    @classmethod
    def of(
        cls,
        dispatchers: Iterable[DispatcherSettings],
        *,
        case_sensitive: bool = False,
        merging: bool = False,
    ) -> TargetRouter:
        """Of ``sink.dispatchers``; rules without a target are passed over.

        Raises :class:`RoutingRuleInvalid`.
        """
        rules = []
        for i, settings in enumerate(dispatchers):
            if settings.routes:
                rules.append(_compile(i, settings, case_sensitive))
        return cls(tuple(rules), merging)

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
            return plain(schema), table
        found = (
            _filled(rule.schema, schema, table) if rule.schema else plain(schema),
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

    def merges(self, schema: str, table: str) -> bool:
        """Whether a table is one of a shard group: other names may become the same as its own.

        So it is of one that has no other table now.
        """
        rule = self._rule(schema, table)
        text = ("{schema}", "{table}")
        if rule is not None:
            text = rule.schema or text[0], rule.table or text[1]
        needed = {"schema", "table"} | ({"node"} if is_qualified(schema) else set())
        return self.merging and not needed <= set(_HOLE.findall(" ".join(text)))

    def gives(self, schema: str, table: str) -> bool:
        """Whether rows of a table have columns at the target with values from its names."""
        rule = self._rule(schema, table)
        return rule is not None and rule.gives

    def target_schema(self, schema: str) -> str:
        """The database that a statement about a whole database of the upstream is about.

        Raises :class:`RoutingFailed` unless the rules that look at the schema agree on one.
        """
        found = set()
        for rule in self.rules:
            if rule.matcher.matches_schema(schema):
                if "{table}" in rule.schema:
                    found |= {rule.schema, plain(schema)}
                else:
                    found.add(_filled(rule.schema, schema, "") if rule.schema else plain(schema))
        if len(found) > 1:
            raise RoutingFailed(
                f"its tables go to several databases: {', '.join(sorted(found))}",
                object=schema,
                hint="carry the change of the database out at the target, then skip it here",
            )
        return found.pop() if found else plain(schema)

    def check(self, tables: Iterable[Name]) -> None:
        """Raise :class:`RouteConflict` if two of these tables would become one, and must not."""
        Targets(self).add(*tables)

    def groups(self, tables: Iterable[Name]) -> dict[Name, list[Name]]:
        """By name at the target the tables that become it, in their order."""
        found: dict[Name, list[Name]] = {}
        for table in tables:
            found.setdefault(self.target(*table), []).append(table)
        return found

    def _rule(self, schema: str, table: str) -> _Rule | None:
        return next((r for r in self.rules if r.matcher.matches(schema, table)), None)


NO_RULES = TargetRouter()


@dataclass(frozen=True)
class Targets:
    """Which tables of the upstream hold each name at the target, from change to change.

    Invariant: one table for each name, unless the router is ``merging``; never none. Every method
    returns the state behind the change.
    """

    router: TargetRouter
    holders: Mapping[Name, frozenset[Name]] = field(default_factory=dict)

    def add(self, *tables: Name) -> Targets:
        """Tables that are delivered from now on. Raises :class:`RouteConflict`."""
        holders = dict(self.holders)
        for table in tables:
            target = self.router.target(*table)
            others = holders.get(target, frozenset()) - {table}
            if others and not self.router.merging:
                raise RouteConflict(
                    f"would become {_text(target)}, which {_text(min(others))} is already",
                    object=_text(table),
                    hint="give them different names with {node}, {schema} and {table} in "
                    "sink.dispatchers; or set shard-mode, if they are to be one table",
                )
            holders[target] = others | {table}
        return Targets(self.router, holders)

    def drop(self, *tables: Name) -> Targets:
        """Tables that are gone: their names are free."""
        gone = set(tables)
        left = {target: held - gone for target, held in self.holders.items()}
        return Targets(self.router, {target: held for target, held in left.items() if held})

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
                f"{text!r} holds something in braces that is not {{node}}, {{schema}} or {{table}}",
                object=f"{place}.{key}",
                hint="write literal text, {schema} and {table}; {node} where there are several",
            )
    try:
        matcher = parse_matcher(settings.matcher, case_sensitive=case_sensitive)
    except FilterRuleInvalid as e:
        raise RoutingRuleInvalid(e.message, object=f"{place}.matcher", hint=e.hint) from None
    gives = bool(settings.extracts)
    return _Rule(index, matcher, settings.target_schema, settings.target_table, gives)


def _filled(expression: str, schema: str, table: str) -> str:
    values = {"node": node_of(schema), "schema": plain(schema), "table": table}
    return _HOLE.sub(lambda m: values[m[1]], expression)


def _text(name: Name) -> str:
    return f"{name[0]}.{name[1]}"
