"""A DDL statement as one value, which everybody who asks about its text is answered from.

``cdc.schema.ddl`` reads it. It holds names and places, no items: those are a hundred times as large
as their text, and a history of statements is kept. Who needs them asks for a cursor. Actions of an
ALTER are read when they are asked for, so that what has actions that we cannot read has names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import lru_cache

from cdc.schema.alter import Plan, read_action
from cdc.schema.session import Session
from cdc.schema.tokens import LONG_SQL, Cursor, read_statement

TableName = tuple[str, str]
_NO_SESSION = Session()


class Verb(StrEnum):
    """What a statement does, as far as it may be delivered; OTHER is delivered nowhere."""

    CREATE = "create table"
    ALTER = "alter table"
    DROP = "drop table"
    RENAME = "rename table"
    TRUNCATE = "truncate table"
    CREATE_INDEX = "create index"
    DROP_INDEX = "drop index"
    DATABASE = "database"
    OTHER = "other"


_ABOUT_TABLES = {verb.value: verb for verb in Verb if verb not in (Verb.DATABASE, Verb.OTHER)}


class NameRole(Enum):
    """Why a statement names a table."""

    TARGET = "target"  # It is about this table.
    MODEL = "model"  # LIKE
    PARENT = "parent"  # REFERENCES
    SEQUENCE = "sequence"  # NEXT VALUE FOR
    MEMBER = "member"  # UNION of a MERGE table
    EXCHANGED = "exchanged"  # EXCHANGE PARTITION … WITH TABLE
    FROM_PARTITION = "from partition"  # CONVERT PARTITION … TO TABLE
    TO_PARTITION = "to partition"  # CONVERT TABLE … TO PARTITION
    NEW_NAME = "new name"  # RENAME of ALTER TABLE


_INDEX_KINDS = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")
_MOVING = (NameRole.EXCHANGED, NameRole.FROM_PARTITION, NameRole.TO_PARTITION)


@dataclass(frozen=True, slots=True)
class Named:
    """A table's name in a text: ``text[start:end]``, its parts and what is between them."""

    start: int
    end: int
    schema: str
    name: str
    role: NameRole = NameRole.TARGET

    @property
    def table(self) -> TableName:
        """``(schema, name)``."""
        return self.schema, self.name


@dataclass(frozen=True, slots=True)
class AlterAction:
    """One action or table option of ALTER TABLE: items ``[first, end)``, without commas.

    ``words`` are its items in capitals, empty for what is no word; ``plan`` is what it alone asks
    for, which nobody may change.
    """

    first: int
    end: int
    words: tuple[str, ...]
    plan: Plan

    @property
    def empties(self) -> bool:
        """Whether it takes the rows out of a partition that stays."""
        return self.words[:2] in (("TRUNCATE", "PARTITION"), ("EXCHANGE", "PARTITION"))

    @property
    def removes_partitions(self) -> bool:
        """Whether partitions go with their rows; REORGANIZE and the like keep the rows."""
        return self.words[:2] in (("DROP", "PARTITION"), ("CONVERT", "PARTITION"))


@dataclass(frozen=True, slots=True)
class DdlStatement:
    """What a statement's text says, without any knowledge of the tables.

    ``kind`` are its own words (``alter table``), ``modifiers`` those between its verb and TABLE,
    INDEX and the like, in capitals. ``first`` is the index of the verb among the items, ``body``
    that of the first item behind the name of the table or database. ``targets`` are the tables, or
    views, that it is about, in its order, for RENAME old and new in turn; ``others`` are names
    elsewhere in it. ``index`` is the index of CREATE and DROP INDEX. ``schema`` is the database of
    a statement about one, with its place in the text unless it is the session's. ``condition`` are
    the items ``[first, end)`` of IF [NOT] EXISTS of what the statement is about. ``obstacle`` says
    why its names cannot be told to a target, and is empty if they can.
    """

    kind: str
    sql: str = ""
    session: Session = _NO_SESSION
    first: int = 0
    body: int = 0
    modifiers: tuple[str, ...] = ()
    targets: tuple[Named, ...] = ()
    others: tuple[Named, ...] = ()
    index: str = ""
    schema: str = ""
    schema_at: tuple[int, int] | None = None
    condition: tuple[int, int] | None = None
    obstacle: str = ""

    @property
    def verb(self) -> Verb:
        """The kind as sinks tell them apart."""
        if self.kind.endswith(" database"):
            return Verb.DATABASE
        # Maintenance of partitions, which is of no kind that changes anything.
        of_partition = self.kind.endswith(" partition")
        return Verb.ALTER if of_partition else _ABOUT_TABLES.get(self.kind, Verb.OTHER)

    @property
    def tables(self) -> tuple[TableName, ...]:
        """Tables that it changes, each once."""
        if self.kind not in _ABOUT_TABLES:
            return ()
        changed = (*_MOVING, NameRole.NEW_NAME)
        second = (named for named in self.others if named.role in changed)
        return tuple(dict.fromkeys(named.table for named in (*self.targets, *second)))

    @property
    def schemas(self) -> tuple[str, ...]:
        """The database of a statement about one."""
        return (self.schema,) if self.verb is Verb.DATABASE else ()

    @property
    def renames(self) -> tuple[tuple[TableName, TableName], ...]:
        """Tables that it renames as (old, new), in its order."""
        names = [named.table for named in self.targets]
        if self.verb is Verb.RENAME:
            return tuple(zip(names[::2], names[1::2], strict=True))
        new = [named.table for named in self.others if named.role is NameRole.NEW_NAME]
        return ((names[0], new[-1]),) if new else ()

    @property
    def referenced(self) -> tuple[TableName, ...]:
        """Tables that it only reads: parents of foreign keys, the model of a LIKE."""
        read = (NameRole.MODEL, NameRole.PARENT)
        return tuple(dict.fromkeys(named.table for named in self.others if named.role in read))

    @property
    def moves(self) -> tuple[tuple[TableName, TableName], ...]:
        """Pairs of tables between which it moves rows: EXCHANGE and CONVERT PARTITION."""
        partners = (named for named in self.others if named.role in _MOVING)
        return tuple((self.targets[0].table, named.table) for named in partners)

    @property
    def actions(self) -> tuple[AlterAction, ...]:
        """Actions of an ALTER TABLE in their order. Raises ``DDLNotUnderstood``."""
        return _actions(self) if len(self.sql) > LONG_SQL else _known_actions(self)

    @property
    def destroys_rows(self) -> bool:
        """Whether tables that are there lose rows by it: DROP, TRUNCATE, OR REPLACE, partitions.

        Partitions that go are not counted, only those that are emptied. Raises
        ``DDLNotUnderstood``.
        """
        if self.verb in (Verb.DROP, Verb.TRUNCATE) or self.kind == "drop database":
            return True
        if self.verb in (Verb.CREATE, Verb.DATABASE):
            return self.replacing
        return any(action.empties for action in self.actions)

    @property
    def removes_partitions(self) -> bool:
        """Whether an ALTER takes partitions away with their rows. Raises ``DDLNotUnderstood``."""
        return any(action.removes_partitions for action in self.actions)

    @property
    def dropped_columns(self) -> frozenset[str]:
        """Lower-case names of columns that an ALTER drops, not of those that it renames.

        Raises ``DDLNotUnderstood``.
        """
        return frozenset(name for action in self.actions for name in action.plan.drops)

    @property
    def exchanges(self) -> bool:
        """Whether it is EXCHANGE PARTITION, which done twice is not done."""
        return any(named.role is NameRole.EXCHANGED for named in self.others)

    @property
    def like(self) -> bool:
        """Whether it makes a table like another, which is then the first of ``others``."""
        return any(named.role is NameRole.MODEL for named in self.others)

    @property
    def conditional(self) -> bool:
        """Whether it says IF EXISTS or IF NOT EXISTS of what it is about."""
        return self.condition is not None

    @property
    def replacing(self) -> bool:
        """Whether it is CREATE OR REPLACE."""
        return "REPLACE" in self.modifiers

    @property
    def index_kind(self) -> str:
        """UNIQUE, FULLTEXT, SPATIAL or VECTOR of CREATE INDEX; empty for any other."""
        return next((word for word in self.modifiers if word in _INDEX_KINDS), "")

    @property
    def temporary(self) -> bool:
        """Whether it is about a temporary table."""
        return "TEMPORARY" in self.modifiers

    def cursor(self, at: int | None = None) -> Cursor:
        """A cursor over its items at item ``at``, or at its verb; its text is that of the places.

        Comments are blanks in that text, and semicolons at the end are no items.
        """
        c = read_statement(self.sql, self.session)
        c.at = self.first if at is None else at
        return c


# The filter of each changefeed, its sink and the owner ask one after the other.
@lru_cache(maxsize=32)
def _known_actions(statement: DdlStatement) -> tuple[AlterAction, ...]:
    return _actions(statement)


def _actions(statement: DdlStatement) -> tuple[AlterAction, ...]:
    if statement.verb is not Verb.ALTER:
        return ()
    actions: list[AlterAction] = []
    c = statement.cursor(statement.body)
    while c.peek() is not None:
        if c.punct(","):
            continue
        first, plan = c.at, Plan()
        read_action(c, plan, statement.session)
        if c.at == first:
            raise c.error("the clause of ALTER TABLE is not understood")
        words = tuple(item.word for item in c.items[first : c.at])
        actions.append(AlterAction(first, c.at, words, plan))
    return tuple(actions)
