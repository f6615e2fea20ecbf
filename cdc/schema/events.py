"""The session of a QUERY event: what the server said of it with the statement."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from cdc.base.nodes import node_of, plain
from cdc.schema.charsets import charset_of_collation, codec_of, collation_of_id, decode
from cdc.schema.session import Session
from cdc.schema.sql_mode import SqlMode
from cdc.schema.tokens import DDLNotUnderstood

# Flags of the status variable FLAGS2.
_NO_FOREIGN_KEY_CHECKS = 1 << 26
_EXPLICIT_DEFAULTS = 1 << 24


class Status(Protocol):
    """The status variables that matter; ``cdc.binlog.query.StatusVariables`` has them."""

    @property
    def flags2(self) -> int | None: ...
    @property
    def sql_mode(self) -> int | None: ...
    @property
    def charset(self) -> tuple[int, int, int] | None: ...
    @property
    def charset_database(self) -> int | None: ...
    @property
    def explicit_defaults_ts(self) -> int | None: ...
    @property
    def default_collation_utf8mb4(self) -> int | None: ...
    @property
    def charset_collations(self) -> tuple[tuple[int, int], ...]: ...


def session_of_event(base: Session, schema: str, status: Status, error_code: int = 0) -> Session:
    """``base`` (server kind, version, lower_case_table_names) with what the event carries.

    ``base`` is what ``cdc.schema.snapshot.session_of`` makes of a snapshot; ``schema`` and
    ``error_code`` are the event's own. In a log of several nodes ``schema`` says the node, also
    where there is no default database.
    """
    mode = status.sql_mode or 0
    flags = status.flags2 or 0
    explicit = base.explicit_defaults_for_timestamp
    if status.explicit_defaults_ts is not None:
        explicit = bool(status.explicit_defaults_ts)
    elif base.mariadb and base.version >= (10, 10) and status.flags2 is not None:
        explicit = bool(flags & _EXPLICIT_DEFAULTS)
    client, _, server = status.charset or (None, None, None)
    utf8mb4 = status.default_collation_utf8mb4
    pairs = [
        (charset_of_collation(_name(a, base) or "", base), _name(b, base))
        for a, b in status.charset_collations
    ]
    return replace(
        base,
        ansi_quotes=bool(mode & SqlMode.ANSI_QUOTES),
        no_backslash_escapes=bool(mode & SqlMode.NO_BACKSLASH_ESCAPES),
        strict=bool(mode & (SqlMode.STRICT_TRANS_TABLES | SqlMode.STRICT_ALL_TABLES)),
        real_as_float=bool(mode & SqlMode.REAL_AS_FLOAT),
        oracle=base.mariadb and bool(mode & SqlMode.ORACLE),
        mssql=base.mariadb and bool(mode & SqlMode.MSSQL),
        maxdb=bool(mode & SqlMode.MAXDB) and (base.mariadb or base.version < (8, 0)),
        default_schema=schema if plain(schema) else "",
        node=node_of(schema),
        collation_client=_name(client, base),
        collation_server=_name(server, base),
        collation_database=_name(status.charset_database, base),
        default_collation_utf8mb4=_name(utf8mb4, base),
        charset_collations=tuple((a, b) for a, b in pairs if a and b),
        explicit_defaults_for_timestamp=explicit,
        foreign_key_checks=not flags & _NO_FOREIGN_KEY_CHECKS,
        failed=error_code != 0,
    )


def _name(number: int | None, session: Session) -> str | None:
    return None if number is None else collation_of_id(number, session)


def statement_text(raw: bytes, session: Session) -> str:
    """The statement as text, by the client's character set; ``DDLNotUnderstood`` if it is not."""
    charset = charset_of_collation(session.collation_client or "utf8mb4_bin", session) or "utf8mb4"
    try:
        return decode(raw, charset) if charset == "latin1" else raw.decode(codec_of(charset))
    except (LookupError, UnicodeDecodeError) as e:
        raise DDLNotUnderstood(
            f"the statement is not text of its client's character set {charset}",
            hint="run DDL from clients that speak utf8mb4",
        ) from e
