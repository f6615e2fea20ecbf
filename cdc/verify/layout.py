"""A table as it is compared: its columns, its key, and the SQL texts over them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc.base.nodes import plain
from cdc.schema.tokens import quoted
from cdc.verify import keys
from cdc.verify.columns import ColumnInfo, Compared, compared
from cdc.verify.keys import Key, Range
from sink.dispatch.extracted import Given

Name = tuple[str, str]

# What a row counts whose text the server could not make: more than all hashes of a table.
UNHASHED = 10**40
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table of one server. ``key``: names of the columns that identify a row, or ``()``.

    ``schema`` says its node, where the upstream has several (``cdc.base.nodes``). ``logical``: the
    table that it is a part of, and whose name its rows have in the changefeed.
    """

    schema: str
    name: str
    columns: tuple[ColumnInfo, ...]
    key: tuple[str, ...] = ()
    rows: int = 0
    logical: Name | None = None

    @property
    def source(self) -> Name:
        """What it is called in the changefeed."""
        return self.logical or (self.schema, self.name)

    @property
    def full_name(self) -> str:
        """``schema.table``."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class ComparedColumns:
    """The columns of both sides of a table; ``key`` is empty if rows cannot be told apart.

    ``parts`` are the servers' tables whose rows ``target`` has, one but for shard groups and
    logical tables, and ``sources`` what these are called in the changefeed. All have these columns
    but those that are ``lacking`` there, in lower case. ``schema`` and ``name`` say which of all
    these the SQL texts are about. ``rows`` is how many there are, as the upstream guesses.
    ``filled`` are columns as they are of all rows of a table that lacks them. ``condition`` says
    which of the target's rows are meant, and ``rows_where`` is it there. ``given``: columns with
    the values that messages of a part's rows have by its names, the same columns for each; they are
    a part of what identifies a row.
    """

    schema: str
    name: str
    columns: tuple[Compared, ...]
    key: tuple[Compared, ...]
    rows: int
    parts: tuple[Name, ...] = ()
    sources: tuple[Name, ...] = ()
    target: Name = ("", "")
    lacking: Mapping[Name, frozenset[str]] = field(default_factory=dict)
    filled: Mapping[str, Compared] = field(default_factory=dict)
    condition: str = ""
    rows_where: str = ""
    given: Mapping[Name, Given] = field(default_factory=dict)

    def at(self, table: Name) -> ComparedColumns:
        """The same with SQL texts about another table that has these columns, or values of them."""
        made = replace(self, schema=plain(table[0]), name=table[1])
        if absent := self.lacking.get(table):
            columns = (
                self.filled[n] if (n := c.name.lower()) in absent else c for c in self.columns
            )
            made = replace(made, columns=tuple(columns))
        return made

    def at_target(self) -> ComparedColumns:
        """The same with SQL texts about the target's rows that are meant."""
        return replace(self.at(self.target), rows_where=self.condition)

    def without(self, names: Collection[str]) -> ComparedColumns:
        """The same without columns, by their names in lower case; the key is not among them."""
        kept = tuple(c for c in self.columns if c.name.lower() not in names)
        lacking = {t: rest for t, n in self.lacking.items() if (rest := n - set(names))}
        return replace(self, columns=kept, lacking=lacking)

    @property
    def identity(self) -> tuple[str, ...]:
        """Names of the columns that identify a row in messages; ``()`` if rows have no key."""
        given = next(iter(self.given.values()), ())
        return (*(c.name for c in self.key), *(name for name, _ in given)) if self.key else ()

    @property
    def table(self) -> str:
        """The table, or its rows that are meant, behind FROM."""
        name = quoted(self.schema, self.name)
        if not self.rows_where:
            return name
        return f"(SELECT * FROM {name} WHERE {self.rows_where}) AS {quoted(self.name)}"

    @property
    def by_range(self) -> bool:
        """Whether it can be cut into ranges of its key."""
        return bool(self.key) and all(c.ordered for c in self.key)

    @property
    def loose(self) -> tuple[Compared, ...]:
        """Columns that are fetched to be compared."""
        return tuple(c for c in self.columns if c.loose)

    @property
    def hash(self) -> str:
        """SQL for 60 bits of the hash of a row's text; NULL if it could not be made.

        MariaDB takes a constant of 64 bits for a signed one when it groups by what equals it.
        """
        texts = ", ',', ".join(c.marked for c in self.columns if not c.loose) or "''"
        return f"CAST(CONV(LEFT(SHA2(CONCAT({texts}, ''), 256), 15), 16, 10) AS UNSIGNED)"

    def digest(self, range_: Range) -> str:
        """SQL for count and sum of hashes of a range; a sum, since equal rows cancel in a XOR."""
        total = f"COALESCE(SUM(IFNULL({self.hash}, {UNHASHED})), 0)"
        return f"SELECT COUNT(*) AS n, {total} AS s FROM {self.table} WHERE {self._in(range_)}"

    def bound(self, range_: Range, rows: int) -> str:
        """SQL for the key of the row number ``rows`` (from 1) in a range."""
        order = ", ".join(c.sql for c in self.key)
        cells = ", ".join(f"{keys.cell(c)} AS c{i}" for i, c in enumerate(self.key))
        return (
            f"SELECT {cells} FROM {self.table} WHERE {self._in(range_)}"
            f" ORDER BY {order} LIMIT 1 OFFSET {rows - 1}"
        )

    def rows_in(self, range_: Range) -> str:
        """SQL for key, hash and loose columns of the rows of a range."""
        return f"{self._keyed()} WHERE {self._in(range_)}"

    def rows_of(self, wanted: Iterable[Key]) -> str:
        """SQL for the same of single keys."""
        return f"{self._keyed()} WHERE {keys.one_of(self.key, wanted)}"

    def details_of(self, wanted: Iterable[Key]) -> str:
        """SQL for key, and text and shown value of every column, of single keys."""
        return f"{self._detailed()} WHERE {keys.one_of(self.key, wanted)}"

    def buckets(self, count: int) -> str:
        """SQL for number, count and sum of each bucket of hashes."""
        return (
            f"SELECT v % {count} AS b, COUNT(*) AS n, SUM(IFNULL(v, {UNHASHED})) AS s"
            f" FROM (SELECT {self.hash} AS v FROM {self.table}) AS x GROUP BY v % {count}"
        )

    def hashes(self, condition: str) -> str:
        """SQL for hashes and how many rows have each; ``condition`` is over ``v``."""
        return (
            f"SELECT v, COUNT(*) AS n FROM (SELECT {self.hash} AS v FROM {self.table}) AS x"
            f" WHERE {condition} GROUP BY v"
        )

    def detailed(self) -> str:
        """SQL for hash, key, and text and shown value of every column, of all rows."""
        return self._detailed()

    def every(self) -> str:
        """SQL for hash and loose columns of all rows."""
        loose = "".join(f", {c.shown} AS j{i}" for i, c in enumerate(self.loose))
        return f"SELECT {self.hash} AS v{loose} FROM {self.table}"

    def details_where(self, hashes: Iterable[int]) -> str:
        """SQL for hash, key, and text and shown value of every column, by hash."""
        wanted = ", ".join(str(h) for h in hashes)
        return f"{self._detailed()} WHERE {self.hash} IN ({wanted})"

    def _in(self, range_: Range) -> str:
        return keys.within(self.key, range_)

    def _keyed(self) -> str:
        cells = "".join(f"{keys.cell(c)} AS c{i}, " for i, c in enumerate(self.key))
        loose = "".join(f", {c.shown} AS j{i}" for i, c in enumerate(self.loose))
        return f"SELECT {cells}{self.hash} AS v{loose} FROM {self.table}"

    def _detailed(self) -> str:
        cells = "".join(f"{c.shown} AS c{i}, " for i, c in enumerate(self.key))
        if self.by_range:
            cells = "".join(f"{keys.cell(c)} AS c{i}, " for i, c in enumerate(self.key))
        values = ", ".join(
            f"{'NULL' if c.loose else c.marked} AS t{i}, {_shown(c)} AS s{i}"
            for i, c in enumerate(self.columns)
        )
        loose = "".join(f", {c.shown} AS j{i}" for i, c in enumerate(self.loose))
        return f"SELECT {cells}{self.hash} AS v, {values}{loose} FROM {self.table}"


def _shown(column: Compared) -> str:
    # One more than is printed, so that it is known to be shortened.
    return f"LEFT({column.shown}, {_SHOWN_CHARS})"


def layout(
    ours: TableInfo, theirs: TableInfo, only: Collection[str] | None = None
) -> tuple[ComparedColumns, list[str]]:
    """How two tables are compared, and which columns are on one side only.

    ``only``: the columns that are delivered, by their names in lower case; None is all.
    """
    other = {c.name.lower(): c for c in theirs.columns if not c.virtual}
    mine = {c.name.lower(): c for c in ours.columns if not c.virtual}
    if only is not None:
        mine = {n: c for n, c in mine.items() if n in only}
        other = {n: c for n, c in other.items() if n in only}
    missing = [f"column {c.name} is upstream only" for n, c in mine.items() if n not in other]
    extra = [f"column {c.name} is at the target only" for n, c in other.items() if n not in mine]
    columns = tuple(compared(c, other[n]) for n, c in mine.items() if n in other)
    by_name = {c.name.lower(): c for c in columns}
    key = tuple(by_name[k.lower()] for k in ours.key if k.lower() in by_name)
    if len(key) != len(ours.key):
        key = ()
    made = ComparedColumns(
        plain(ours.schema),
        ours.name,
        columns,
        key,
        ours.rows,
        ((ours.schema, ours.name),),
        (ours.source,),
        (theirs.schema, theirs.name),
    )
    return made, missing + extra


def group_layout(
    parts: Sequence[TableInfo], theirs: TableInfo, *, widened: bool
) -> tuple[ComparedColumns, list[str], str]:
    """How several tables, of a shard group or of a logical one, are compared with their target.

    Second, which columns are upstream or at the target only; third, why they cannot be compared, or
    empty. ``widened``: the target gives rows of a table that lacks a column a value; such columns
    are ``lacking`` of the first.
    """
    other = {c.name.lower(): c for c in theirs.columns if not c.virtual}
    mine = [{c.name.lower(): c for c in p.columns if not c.virtual} for p in parts]
    names = dict.fromkeys(n for each in mine for n in each)
    one_sided = [f"column {n} is upstream only" for n in names if n not in other]
    one_sided += [
        f"column {c.name} is at the target only" for n, c in other.items() if n not in names
    ]
    both = [n for n in names if n in other]
    lacking = {
        (p.schema, p.name): absent
        for p, each in zip(parts, mine, strict=True)
        if (absent := frozenset(n for n in both if n not in each))
    }
    columns = {n: compared(*(each[n] for each in mine if n in each), other[n]) for n in both}
    keys = {tuple(k.lower() for k in p.key) for p in parts}
    named = keys.pop() if len(keys) == 1 else ()
    made = ComparedColumns(
        plain(parts[0].schema),
        parts[0].name,
        tuple(columns.values()),
        tuple(columns[k] for k in named) if all(k in columns for k in named) else (),
        sum(p.rows for p in parts),
        tuple((p.schema, p.name) for p in parts),
        tuple(dict.fromkeys(p.source for p in parts)),
        (theirs.schema, theirs.name),
        lacking=lacking,
    )
    why = ""
    if lacking and not widened:
        table, absent = next(iter(lacking.items()))
        without, name = ".".join(table), min(absent)
        having = next(".".join(t) for t in made.parts if name not in lacking.get(t, ()))
        why = f"{without} and {having} differ in column {name}: not all have had a change of it"
    return made, one_sided, why
