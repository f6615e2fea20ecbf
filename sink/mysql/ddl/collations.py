"""The target's collation for one of the upstream's.

Between the families the nearest one of the same character set: case and accents count alike, the
version of the Unicode weights and the padding of trailing spaces may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdc.schema.charsets import full_collation, normal_collation
from sink.mysql.ddl.errors import DDLNotTranslatable
from sink.mysql.ddl.server import TargetServer

_MYSQL = re.compile(r"(utf8mb4)_0900_(ai_ci|as_ci|as_cs|bin)")
_MARIADB = re.compile(r"(utf8mb[34]|ucs2|utf16|utf32)_uca1400_(?:nopad_)?(ai_ci|ai_cs|as_ci|as_cs)")
_NOPAD = re.compile(r"(\w+?)_nopad_(ci|bin)")


def collation_for(name: str, charset: str | None, server: TargetServer) -> str:
    """The target's name; ``charset`` completes MariaDB's short names.

    Raises DDLNotTranslatable if the target has none that is near.
    """
    full = full_collation(name, charset) if charset else normal_collation(name)
    if full in server.collations:
        return server.collations[full]
    for other in _near(full):
        if other in server.collations:
            return server.collations[other]
    raise DDLNotTranslatable(
        f"{server.name} has no collation like {full}",
        hint="create or alter the table at the target with a collation of its own, and leave the"
        " statement out: `cdc cli ddl skip`",
    )


def _near(name: str) -> Iterator[str]:
    mysql, mariadb = _MYSQL.fullmatch(name), _MARIADB.fullmatch(name)
    if mysql and mysql[2] == "bin":
        yield "utf8mb4_nopad_bin"
        yield "utf8mb4_bin"
    elif mysql:
        yield f"utf8mb4_uca1400_nopad_{mysql[2]}"
        if mysql[2] == "ai_ci":
            yield "utf8mb4_unicode_520_nopad_ci"
    elif mariadb:
        charset, kind = mariadb[1], mariadb[2]
        if charset == "utf8mb4":
            yield f"utf8mb4_0900_{kind}"
        if kind == "ai_ci":
            yield f"{charset}_unicode_520_ci"
    else:
        plain = _NOPAD.fullmatch(name)
        if plain:
            yield f"{plain[1]}_{plain[2]}"
