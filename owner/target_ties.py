"""Foreign keys of the target as ties between tables of the upstream, which may have other names.

A tie is between names at the target. Each of them may be several tables of the upstream (a shard
group), or none that the changefeed delivers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from cdc.base.nodes import is_qualified
from cdc.schema.catalog import Catalog
from owner.ddl import Ddl, FeedScope
from sink.dispatch.target import NO_RULES, Name, TargetRouter

Ties = tuple[tuple[str, str], ...]


class TargetTies:
    """The ties of one changefeed; it remembers all names that tables have had.

    A change that still waits may be about a table that has another name by now.
    """

    def __init__(self, names: TargetRouter = NO_RULES) -> None:
        self._names = names
        self._tables: dict[str, set[str]] = {}
        self._known: set[Name] = set()
        self._schemas: Catalog | None = None
        self._ties: Ties = ()
        self._found: Ties = ()

    def in_scope(self, scope: FeedScope, schemas: Catalog | None, ddls: Iterable[Ddl]) -> FeedScope:
        """The scope with its ties between tables of the upstream (see ``upstream``)."""
        if not scope.ties:
            return scope
        touched = (name for ddl in ddls if ddl.statement for name in ddl.statement.tables)
        return replace(scope, ties=self.upstream(scope.ties, schemas, touched))

    def renames(self, schemas: Catalog | None) -> bool:
        """Whether the target may know tables of these by other names."""
        return bool(self._names) or schemas is None or any(is_qualified(s) for s, _ in schemas)

    def upstream(self, ties: Ties, schemas: Catalog | None, touched: Iterable[Name]) -> Ties:
        """The ``ties`` as pairs of ``schema.table`` of the upstream.

        ``schemas`` are its tables at the end of what is known of the log, ``touched`` those that
        changes before that are about.
        """
        if not ties or not self.renames(schemas):
            return ties
        new = set(touched) - self._known
        if schemas is not None and schemas is not self._schemas:
            new |= set(schemas) - self._known
        if new or ties is not self._ties:
            for name in new:
                target = ".".join(self._names.target(*name)).lower()
                self._tables.setdefault(target, set()).add(".".join(name).lower())
            self._known |= new
            self._found = tuple(
                pair
                for child, parent in ties
                for pair in product(self._upstream(child), self._upstream(parent))
            )
        self._schemas, self._ties = schemas, ties
        return self._found

    def _upstream(self, name: str) -> list[str]:
        return sorted(self._tables.get(name.lower(), ()))
