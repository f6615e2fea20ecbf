"""Which topic and partition a row goes to.

The partition is ``hash % partitions`` with the hash of TiCDC (``PositionInertia``), a XOR of
CRC32-IEEE values. The first is of schema name followed by table name; ``index-value`` and
``columns`` XOR in, for each of their columns, the CRC32 of column name followed by the value's
text. ``ts`` is ``commit_ts % partitions``. Values come from the new row of an INSERT or UPDATE and
from the old row of a DELETE; the kernel that reads them is not here. Schema and table are the
upstream's, or where several tables may become one the target's, so that a key of theirs has one
topic and one partition.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cdc.base.errors import DefiniteError, InvalidError
from cdc.base.matcher import TableMatcher, parse_matcher
from cdc.base.nodes import plain
from cdc.schema.table import Table
from sink.dispatch.settings import DispatcherSettings, PartitionMode
from sink.dispatch.target import Name, TargetRouter
from sink.dispatch.topic import check_expression, topic_name
from sink.errors import LayoutOutgrown


class DispatcherInvalid(InvalidError):
    """A dispatcher rule that cannot be used."""

    code = "TG:ErrDispatcherInvalid"


class DispatcherFailed(DefiniteError):
    """A rule that does not fit a table: a missing or unfit index or column."""

    code = "TG:ErrDispatcherFailed"


class TopicUnknown(LayoutOutgrown):
    """A table whose topic has not been looked up: it came after the last recovery."""

    code = "TG:ErrTopicUnknown"


@dataclass(frozen=True, slots=True)
class Route:
    """Where the rows of one table go.

    ``mode`` TABLE: all to partition ``constant``. INDEX_VALUE and COLUMNS: by the values of
    ``columns`` (names as the table writes them, never empty). TS: by commit ts. ``block``, if it is
    not 0: ``columns`` is one integer, whose neighbours in blocks of ``2 ** block`` stay together.
    ``hashed`` are the schema and table that INDEX_VALUE and COLUMNS hash, None the table's own.
    """

    topic: str
    mode: PartitionMode
    columns: tuple[str, ...]
    partitions: int
    constant: int
    block: int = 0
    hashed: Name | None = None

    def destinations(self) -> tuple[tuple[str, int], ...]:
        """Every (topic, partition) that a row of the table can go to."""
        if self.mode is PartitionMode.TABLE or self.partitions == 1:
            return ((self.topic, self.constant),)
        return tuple((self.topic, p) for p in range(self.partitions))


@dataclass(frozen=True, slots=True)
class _Rule:
    matcher: TableMatcher
    settings: DispatcherSettings
    mode: PartitionMode
    topic: str


class Router:
    """Compiled ``sink.dispatchers``: the first rule that matches a table wins.

    A table that no rule matches goes to ``default_topic``, partitioned by table; a rule without a
    topic expression keeps ``default_topic``. ``partitions`` are the counts of the topics;
    ``merging``: several tables may become one.
    """

    def __init__(
        self,
        dispatchers: Iterable[DispatcherSettings],
        default_topic: str,
        partitions: Mapping[str, int] | None = None,
        *,
        case_sensitive: bool = False,
        merging: bool = False,
    ) -> None:
        dispatchers = tuple(dispatchers)
        self._names = (
            TargetRouter.of(dispatchers, case_sensitive=case_sensitive, merging=True)
            if merging
            else None
        )
        self._default_topic = default_topic
        self._partitions = dict(partitions or {})
        self._rules = tuple(self._compile(d, case_sensitive) for d in dispatchers)

    @property
    def default_topic(self) -> str:
        """Where schema-level DDL and unmatched tables go."""
        return self._default_topic

    def topic(self, schema: str, table: str) -> str:
        """The topic of a table."""
        rule = self._rule(schema, table)
        expression = rule.topic if rule is not None and rule.topic else self._default_topic
        return topic_name(expression, *self._known_by(schema, table))

    def topics(self, tables: Iterable[Table]) -> tuple[str, ...]:
        """The topics of these tables and the default topic, sorted."""
        return tuple(sorted({self._default_topic, *(self.topic(t.schema, t.name) for t in tables)}))

    def route(self, table: Table) -> Route:
        """The route of a table.

        Raises :class:`DispatcherFailed` if the rule names an index or column that does not fit,
        :class:`TopicUnknown` if the topic's partitions were not given.
        """
        rule = self._rule(table.schema, table.name)
        topic = self.topic(table.schema, table.name)
        count = self._partitions.get(topic)
        if count is None:
            raise TopicUnknown(
                f"its topic {topic} was not looked up yet",
                object=table.full_name,
                hint="delivery recovers by itself and creates the topic",
            )
        mode = rule.mode if rule is not None else PartitionMode.TABLE
        columns: tuple[str, ...] = ()
        if rule is not None and mode is PartitionMode.COLUMNS:
            columns = _named(table, rule.settings.columns)
        elif rule is not None and mode is PartitionMode.INDEX_VALUE:
            columns = _index(table, rule.settings.index)
            # Without a key TiCDC hashes schema and table only, which is the mode TABLE.
            mode = mode if columns else PartitionMode.TABLE
        known = self._known_by(table.schema, table.name)
        hashed = known if self._names is not None else None
        return Route(topic, mode, columns, count, table_hash(*known) % count, hashed=hashed)

    def _known_by(self, schema: str, table: str) -> Name:
        """The names that topics and partitions go by."""
        return self._names.target(schema, table) if self._names else (plain(schema), table)

    def _rule(self, schema: str, table: str) -> _Rule | None:
        return next((r for r in self._rules if r.matcher.matches(schema, table)), None)

    def _compile(self, settings: DispatcherSettings, case_sensitive: bool) -> _Rule:
        matcher = parse_matcher(settings.matcher, case_sensitive=case_sensitive)
        topic = check_expression(settings.topic) if settings.topic else ""
        try:
            return _Rule(matcher, settings, settings.mode, topic)
        except ValueError as e:
            raise DispatcherInvalid(
                str(e), object="sink.dispatchers", hint="correct 'partition'"
            ) from None


def table_hash(schema: str, table: str) -> int:
    """CRC32-IEEE of schema followed by table, unsigned."""
    return zlib.crc32(table.encode(), zlib.crc32(schema.encode()))


def _named(table: Table, names: Iterable[str]) -> tuple[str, ...]:
    found = []
    for name in names:
        at = table.positions.get(name.lower())
        if at is None:
            raise DispatcherFailed(
                f"it has no column {name}",
                object=table.full_name,
                hint="correct 'columns' in sink.dispatchers",
            )
        found.append(table.columns[at].name)
    return tuple(found)


def _index(table: Table, name: str) -> tuple[str, ...]:
    """Columns of the named unique key, or of the handle key; ``()`` if the table has none."""
    if not name:
        return tuple(table.columns[i].name for i in table.handle_key)
    for index in table.indexes:
        if index.name.lower() == name.lower() or (index.primary and name.lower() == "primary"):
            if not (index.primary or index.unique) or "" in index.columns:
                break
            return _named(table, index.columns)
    raise DispatcherFailed(
        f"it has no unique key {name}",
        object=table.full_name,
        hint="correct 'index' in sink.dispatchers",
    )
