"""What the target shows of a table right now."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

import pymysql

from cdc.schema.table import Table
from cdc.schema.tokens import quoted
from sink.mysql.connection import SinkSession
from sink.mysql.ddl.errors import ddl_error
from sink.mysql.errors import TargetIncompatible
from sink.mysql.target import printed

_COUNTER = re.compile(r"(?<= )AUTO_INCREMENT=\d+ ?")
_TABLES = ("BASE TABLE", "SYSTEM VERSIONED")


@dataclass(frozen=True, slots=True)
class Shown:
    """A table of the target, None if there is none; ``digest`` changes with its text."""

    table: Table | None
    digest: str = ""


def show(session: SinkSession, schema: str, name: str) -> Shown:
    """Read SHOW CREATE TABLE.

    Raises TargetIncompatible for a view, DDLNotUnderstood for a text that we cannot read.
    """
    object = f"{schema}.{name} at {session.settings.address}"
    try:
        found = session.rows(
            "SELECT t.table_type AS kind, s.default_character_set_name AS charset,"
            " s.default_collation_name AS collation FROM information_schema.tables t"
            " JOIN information_schema.schemata s ON s.schema_name = t.table_schema"
            " WHERE t.table_schema = %s AND t.table_name = %s",
            schema,
            name,
        )
        if not found:
            return Shown(None)
        row = found[0]
        if row["kind"] not in _TABLES:
            raise TargetIncompatible(
                f"it is a {str(row['kind']).lower()} at the target",
                object=object,
                hint="remove it there, or give it another name",
            )
        text = str(session.rows(f"SHOW CREATE TABLE {quoted(schema, name)}")[0]["create table"])
    except (pymysql.err.Error, OSError, EOFError) as error:
        raise ddl_error(error, object, "", "SHOW CREATE TABLE") from None
    bare = _COUNTER.sub("", text)
    table = printed(session, schema, name, text, (row["charset"], row["collation"]))
    return Shown(table, blake2b(bare.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest())


def databases(session: SinkSession) -> frozenset[str]:
    """All databases that the sink's user sees."""
    found = session.rows("SELECT schema_name AS s FROM information_schema.schemata")
    return frozenset(str(row["s"]) for row in found)
