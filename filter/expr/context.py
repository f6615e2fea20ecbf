"""What an expression is checked against: a table, and the server that its rows come from."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.schema.session import Session
from cdc.schema.table import Table
from filter.expr.arithmetic import Server

# 10.4 has other rules; 10.11 and later were measured, those between are taken to be like them.
_RECENT_MARIADB = (10, 5, 0)
# Signed in 8.0.33, unsigned in 9.7; those between were not measured.
_UNSIGNED_YEARS = (8, 0, 34)


@dataclass(frozen=True, slots=True)
class Context:
    """What an expression is checked against."""

    table: Table
    session: Session

    @property
    def server(self) -> Server:
        """What arithmetic and comparison depend on."""
        session = self.session
        recent_mariadb = session.mariadb and session.version >= _RECENT_MARIADB
        return Server(
            session.mariadb,
            self.careless,
            recent_mariadb,
            decimal_constants=not self.before_8,
            whole_lists=not session.mariadb and session.version >= (5, 7, 0),
            unsigned_years=not session.mariadb and session.version >= _UNSIGNED_YEARS,
        )

    @property
    def careless(self) -> bool:
        """Where XOR rounds, CASE forgets after a NULL, and shifts take 32 bits of their places."""
        return self.session.mariadb or self.before_8

    @property
    def before_8(self) -> bool:
        """MySQL 5.x, which has rules of its own for ranges, CASE, XOR and patterns."""
        return not self.session.mariadb and self.session.version < (8, 0, 0)
