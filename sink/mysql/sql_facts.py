"""What of a target's tables stands in no CREATE TABLE of theirs, but decides about statements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sink.mysql.connection import SinkSession


@dataclass(frozen=True, slots=True)
class Facts:
    """Whether a table's foreign keys refer to itself, others' to it; names of its triggers."""

    refers_to_itself: bool = False
    referred_to: bool = False
    triggers: tuple[str, ...] = ()


def read_facts(session: SinkSession, schemas: Iterable[str]) -> dict[tuple[str, str], Facts]:
    """Facts of all tables of these schemas that have any. PyMySQL's errors pass."""
    itself: set[tuple[str, str]] = set()
    referred: set[tuple[str, str]] = set()
    triggers: dict[tuple[str, str], tuple[str, ...]] = {}
    for schema in sorted(set(schemas)):
        for row in session.rows(
            "SELECT table_schema AS s, table_name AS t, referenced_table_name AS n"
            " FROM information_schema.key_column_usage WHERE referenced_table_schema = %s",
            schema,
        ):
            name = (schema, str(row["n"]))
            referred.add(name)
            if (str(row["s"]), str(row["t"])) == name:
                itself.add(name)
        for row in session.rows(
            "SELECT event_object_table AS t, trigger_name AS n FROM information_schema.triggers"
            " WHERE event_object_schema = %s ORDER BY trigger_name",
            schema,
        ):
            name = (schema, str(row["t"]))
            triggers[name] = (*triggers.get(name, ()), str(row["n"]))
    return {
        name: Facts(name in itself, name in referred, triggers.get(name, ()))
        for name in itself | referred | triggers.keys()
    }
