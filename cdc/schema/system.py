"""The servers' own schemas: their tables are in no catalog, and nothing is followed in them."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.base.nodes import plain
from cdc.schema.draft import Body, Options

SYSTEM_SCHEMAS = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
# What tables of information_schema are in, on every server.
INFORMATION_SCHEMA = ("utf8mb3", "utf8mb3_general_ci")
# First columns of InnoDB's tables of transactions, whose names are not in capitals.
_SMALL = ("trx_id", "lock_id", "requesting_trx_id", "database_name")
_PROCESSLIST = ["ID", "USER", "HOST", "DB", "COMMAND", "TIME", "STATE", "INFO"]


def is_system(schema: str) -> bool:
    """Whether it is one of the server's own; on some servers their names are in capitals."""
    return plain(schema).lower() in SYSTEM_SCHEMAS


def is_information(text: str, body: Body, options: Options, *, mariadb: bool) -> bool:
    """Whether a server wrote this CREATE TABLE for LIKE of a table of ``information_schema``.

    It leaves out the character set, which is not the database's. Such a text is the server's own
    print, has all its names in capitals or is one of InnoDB's transactions, has no key, and an
    engine of temporary tables (MariaDB), or the columns of PROCESSLIST, the only one that MySQL
    lets be copied.
    """
    if options.charset or options.collation or body.keys:
        return False
    if not (text.startswith("CREATE TABLE `") and "` (\n  `" in text and "\n) ENGINE=" in text):
        return False
    names = [draft.column.name for draft in body.columns]
    if not mariadb:
        return names == _PROCESSLIST
    temporary = options.engine == "memory" or options.others.get("PAGE_CHECKSUM") == "0"
    return temporary and (_in_capitals(names) or names[0] in _SMALL)


def _in_capitals(names: Sequence[str]) -> bool:
    return all(name == name.upper() for name in names)
