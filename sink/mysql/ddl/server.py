"""What a target can: its family and version, its collations and engines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cdc.schema.charsets import normal_collation
from sink.mysql.connection import SinkSession, mapped


@dataclass(frozen=True, slots=True)
class TargetServer:
    """A target server.

    ``collations``: by full name (``utf8mb4_uca1400_ai_ci``, ``utf8mb3_bin``) the server's own.
    """

    mariadb: bool
    version: tuple[int, int, int]
    collations: Mapping[str, str]
    engines: frozenset[str]

    @property
    def name(self) -> str:
        """As people call it: ``MySQL 8.0.41``."""
        return f"{'MariaDB' if self.mariadb else 'MySQL'} {'.'.join(map(str, self.version))}"


def ask(session: SinkSession) -> TargetServer:
    """Read it from the server. Raises a transient error if it cannot be asked."""
    with mapped(f"target {session.settings.address}"):
        collations = _collations(session)
        engines = session.rows(
            "SELECT engine AS e FROM information_schema.engines WHERE support IN ('YES', 'DEFAULT')"
        )
    digits = [int(n) for n in re.findall(r"\d+", session.target.version)[:3]]
    major, minor, patch = (*digits, 0, 0, 0)[:3]
    return TargetServer(
        session.target.mariadb,
        (major, minor, patch),
        {normal_collation(name): name.lower() for name in collations},
        frozenset(str(row["e"]).lower() for row in engines),
    )


def _collations(session: SinkSession) -> list[str]:
    columns = session.rows(
        "SELECT column_name AS c FROM information_schema.columns"
        " WHERE table_schema = 'information_schema'"
        " AND table_name = 'COLLATION_CHARACTER_SET_APPLICABILITY'"
    )
    full = any(str(row["c"]).lower() == "full_collation_name" for row in columns)
    name = "full_collation_name" if full else "collation_name"
    found = session.rows(
        f"SELECT {name} AS c FROM information_schema.collation_character_set_applicability"
    )
    return [str(row["c"]) for row in found]
