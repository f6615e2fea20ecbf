"""What decides how a statement is read and what it means: server, sql_mode, session defaults.

In a binlog these travel with each QUERY event (``cdc.binlog.query``).
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.base.nodes import qualified


@dataclass(frozen=True, slots=True)
class Session:
    """How SQL text is read, and what it means where it leaves something open.

    Collations are names. ``collation_database`` is that of the default database, where the event
    says so; ``charset_collations`` are MariaDB's ``character_set_collations`` as (charset,
    collation) pairs. ``failed`` says that the statement ended with an error, and is in the binlog
    because it had done something before. ``node`` is that of an upstream of several: databases that
    the text names are this node's. ``default_schema`` has the node in it already.
    """

    mariadb: bool = False
    version: tuple[int, int, int] = (8, 0, 0)
    ansi_quotes: bool = False
    no_backslash_escapes: bool = False
    default_schema: str = ""
    strict: bool = True
    oracle: bool = False
    maxdb: bool = False
    mssql: bool = False
    real_as_float: bool = False
    collation_client: str | None = None
    collation_server: str | None = None
    collation_database: str | None = None
    default_collation_utf8mb4: str | None = None
    charset_collations: tuple[tuple[str, str], ...] = ()
    explicit_defaults_for_timestamp: bool = True
    foreign_key_checks: bool = True
    lower_case_table_names: int = 0
    innodb_prefix: int = 3072
    failed: bool = False
    node: str = ""

    def database(self, name: str) -> str:
        """The name inside of a database that a text calls ``name`` (``cdc.base.nodes``)."""
        return qualified(self.node, name) if self.node else name

    @property
    def comment_version(self) -> int:
        """Version in the form of executable comments, 8.0.33 → 80033."""
        return self.version[0] * 10000 + self.version[1] * 100 + self.version[2]
