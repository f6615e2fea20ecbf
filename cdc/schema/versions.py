"""The schema at every ts of a stretch of history: a snapshot, and each statement behind it.

Versions share what a statement does not touch, so one costs little more than what it changes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from contextlib import suppress

from cdc.base.errors import DefiniteError
from cdc.base.ts import Ts
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.copies import follow
from cdc.schema.statement import DdlStatement
from cdc.schema.table import Table
from cdc.schema.tokens import DDLNotUnderstood

_Name = tuple[str, str]
Lost = tuple[_Name, Ts, DefiniteError]
"""A lost table: its name as the catalog looks it up, since when, and why."""


class Versions:
    """Catalogs by ts, grown at their end by :meth:`advance` and cut at their begin by ``collect``.

    A table that a statement left in a state that we do not know is *lost* from that statement's ts
    on: asking for it raises the statement's error. Nothing is ever guessed.
    """

    def __init__(self, first: Catalog, ts: Ts, lost: Iterable[Lost] = ()) -> None:
        self._ts: list[Ts] = [ts]
        self._catalogs: list[Catalog] = [first]
        self._lost: dict[_Name, tuple[Ts, DefiniteError]] = {one[0]: one[1:] for one in lost}
        self._all_lost: tuple[Ts, DefiniteError] | None = None

    @property
    def last_ts(self) -> Ts:
        """The ts of the newest version."""
        return self._ts[-1]

    @property
    def lost(self) -> list[Lost]:
        """The tables that are lost, if not all are."""
        return [(name, *one) for name, one in self._lost.items()]

    @property
    def all_lost(self) -> bool:
        """Whether nothing is known any more."""
        return self._all_lost is not None

    def __len__(self) -> int:
        return len(self._ts)

    def changes(self, lo: Ts, hi: Ts) -> list[Ts]:
        """The ts of all versions with ``lo < ts <= hi``, rising."""
        return self._ts[bisect_right(self._ts, lo) : bisect_right(self._ts, hi)]

    def at(self, ts: Ts) -> Catalog:
        """The catalog for rows committed at ``ts``, which must not lie below what is kept."""
        return self._catalogs[max(0, bisect_right(self._ts, ts) - 1)]

    def before(self, ts: Ts) -> Catalog:
        """The catalog that a statement at ``ts`` found."""
        return self._catalogs[max(0, bisect_left(self._ts, ts) - 1)]

    def table(self, schema: str, name: str, ts: Ts) -> Table | None:
        """The table for rows at ``ts``; None if there is none.

        Raises the ``DefiniteError`` that made it unknown, if one did.
        """
        self._check_known(schema, name, ts)
        return self.at(ts).table(schema, name)

    def text(self, schema: str, name: str, ts: Ts) -> str:
        """As :meth:`cdc.schema.catalog.Catalog.text`, of the table at ``ts``.

        Raises the ``DefiniteError`` that made it unknown, if one did.
        """
        self._check_known(schema, name, ts)
        return self.at(ts).text(schema, name)

    def _check_known(self, schema: str, name: str, ts: Ts) -> None:
        lost = self._lost.get(self.key((schema, name)))
        for one in (lost, self._all_lost):
            if one is not None and one[0] <= ts:
                raise one[1]

    def advance(self, ts: Ts, statement: DdlStatement) -> DefiniteError | None:
        """Follow the statement at ``ts``, which lies above all before.

        Returns the error if it cannot be followed: the tables that it touches are lost then, or all
        if it is about a database.
        """
        if ts <= self._ts[-1]:
            raise ValueError(f"the statement at {ts} is not behind {self._ts[-1]}")
        if not statement.tables and not statement.schemas:
            self._other(ts, statement)
            return None
        for name in statement.tables:
            known = self._lost.get(self.key(name))
            if known is not None:
                self._lose(ts, statement.tables, known[1])
                return known[1]
        try:
            changed = apply(self._catalogs[-1], statement)
        except DDLNotUnderstood as e:
            self.lose(ts, statement, e)
            return e
        self._ts.append(ts)
        self._catalogs.append(follow(self._catalogs[-1], statement, changed))
        return None

    def _other(self, ts: Ts, statement: DdlStatement) -> None:
        """A view or a sequence takes a name that CREATE TABLE IF NOT EXISTS then does not get.

        Triggers tell copies of tables.
        """
        with suppress(DDLNotUnderstood):
            changed = apply(self._catalogs[-1], statement)
            changed = follow(self._catalogs[-1], statement, changed)
            if changed is not self._catalogs[-1]:
                self._ts.append(ts)
                self._catalogs.append(changed)

    def lose(self, ts: Ts, statement: DdlStatement | None, error: DefiniteError) -> None:
        """From ``ts`` on the statement's tables are not known any more; None loses all."""
        if statement is None or statement.schemas:
            self._all_lost = self._all_lost or (ts, error)
        else:
            self._lose(ts, statement.tables, error)

    def collect(self, below: Ts) -> None:
        """Forget versions that no row above ``below`` needs."""
        keep = max(0, bisect_right(self._ts, below) - 1)
        del self._ts[:keep], self._catalogs[:keep]

    def _lose(self, ts: Ts, names: tuple[_Name, ...], error: DefiniteError) -> None:
        for name in names:
            self._lost.setdefault(self.key(name), (ts, error))

    def key(self, name: _Name) -> _Name:
        """The form in which a table is looked up."""
        catalog = self._catalogs[-1]
        return catalog.key(name[0]), catalog.key(name[1])
