"""The names that ``ignore-event`` takes: TiCDC's of v6.5, v8.5 and its new architecture."""

from __future__ import annotations

from collections.abc import Iterable

from cdc.base.errors import InvalidError
from cdc.base.near import did_you_mean

ALL_DML = "all dml"
ALL_DDL = "all ddl"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
DML = frozenset((INSERT, UPDATE, DELETE))
ALTER_TABLE = "alter table"
MULTI = "multi schema change"

V65 = (
    ALL_DML,
    ALL_DDL,
    INSERT,
    UPDATE,
    DELETE,
    "create schema",
    "create database",
    "drop schema",
    "drop database",
    "create table",
    "drop table",
    "rename table",
    "truncate table",
    ALTER_TABLE,
    "create view",
    "drop view",
    "add table partition",
    "drop table partition",
    "truncate table partition",
)
V85 = (
    "modify schema charset and collate",
    "recover table",
    "rebase auto id",
    "modify table comment",
    "modify table charset and collate",
    "exchange table partition",
    "reorganize table partition",
    "alter table partitioning",
    "remove table partitioning",
    "add column",
    "drop column",
    "modify column",
    "set default value",
    "add primary key",
    "drop primary key",
    "rename index",
    "alter index visibility",
    "alter ttl info",
    "alter ttl remove",
    MULTI,
)
NEW_ARCHITECTURE = (
    "create index",
    "drop index",
    "add foreign key",
    "drop foreign key",
    "add fulltext index",
    "create hybrid index",
)
ALL = (*V65, *V85, *NEW_ARCHITECTURE)
_KNOWN = frozenset(ALL)


class IgnoreEventInvalid(InvalidError):
    """A name in ``ignore-event`` that is no event type."""

    code = "TG:ErrInvalidIgnoreEventType"


def event_types(names: Iterable[str], place: str) -> frozenset[str]:
    """The names as they are known; ``place`` says where they stand in the configuration.

    Raises :class:`IgnoreEventInvalid`.
    """
    found = set()
    for given in names:
        name = " ".join(given.lower().split())
        if name not in _KNOWN:
            raise IgnoreEventInvalid(
                f"{given!r} is no event type",
                object=place,
                hint=did_you_mean(name, ALL) or "docs/filter.md lists the event types",
            )
        found.add(name)
    return frozenset(found)
