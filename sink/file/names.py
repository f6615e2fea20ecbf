"""Where the messages of a table are: folders by its name, files by the place in its history."""

from __future__ import annotations

import re

from cdc.base.position import ROW_END, Position
from cdc.base.ts import Ts

LEDGERS = ".tidegate"
"""Folder of ledgers: no schema's folder begins with a dot."""

PATTERN = "CDC*.json"
"""Files that are complete and never change again."""

_ESCAPED = re.compile(r"%([0-9A-F]{2})")
_UNFIT = re.compile(r"[/%\x00-\x1f\x7f]|^\.| \Z")


def part(name: str) -> str:
    """A name of a database as one of a folder: what cannot be in one is ``%2F``.

    >>> part("shop"), part("a/b"), part(".."), part("50%"), part("n1:shop ")
    ('shop', 'a%2Fb', '%2E.', '50%25', 'n1:shop%20')
    """
    return _UNFIT.sub(lambda found: f"%{ord(found[0]):02X}", name)


def folder(schema: str, table: str) -> str:
    """``schema/table``, below the sink's folder."""
    return f"{part(schema)}/{part(table)}"


def table_of(folder: str) -> str:
    """The table (lower-case ``schema.table``) of a folder.

    >>> table_of("shop/a%2FB")
    'shop.a/b'
    """
    schema, table = (_ESCAPED.sub(_plain, name) for name in folder.split("/"))
    return f"{schema}.{table}".lower()


def _plain(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 16))


def rows_name(upto: Position, number: int) -> str:
    """A file of rows up to a position of its table; ``number`` counts the files up to there.

    Names of a folder sort in the order of the table's history.
    """
    return f"CDC{upto.ts:020d}-{upto.row:019d}-{number:04d}.json"


def change_name(ts: Ts) -> str:
    """The file of a schema change."""
    return f"CDC{ts:020d}-{ROW_END:019d}-ddl.json"
