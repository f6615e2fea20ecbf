"""Marks of schema changes: rows by which a coordinator says that all nodes have changed a table.

A mark is a row of ``__cdc__.__cdc_ddl_record__``, written in one distributed transaction on every
node behind the last change of a part. Its place in the cluster's order is that of the change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cdc.base.redaction import user_data
from cdc.binlog.events import EventType
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader
from cdc.binlog.rows_header import RowsHeader
from cdc.binlog.table_map import TableMap
from cdc.logical.errors import MarkMalformed, MarkRefused
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.statement import DdlStatement, Verb
from cdc.schema.table import Table
from cdc.schema.tokens import DDLNotUnderstood, Item, tokenize
from cdc.source.table_index import width

MARKS: Final = ("__cdc__", "__cdc_ddl_record__")
"""The table of marks."""

_WRITES: Final = frozenset({EventType.WRITE_ROWS_V1, EventType.WRITE_ROWS})
_HINT: Final = "the table is __cdc__.__cdc_ddl_record__ of docs/cluster-db.md"


class Visibility(IntEnum):
    """Whom a change is for: the coordinator alone, everybody, or databases of its own kind."""

    PRIVATE = 0
    PUBLIC = 1
    PROTECTED = 2


@dataclass(frozen=True, slots=True)
class DdlMark:
    """A row of the table of marks, as far as it matters here; ``sql`` is as it was given.

    ``meta`` is its META_INFO, "" where there is none.
    """

    id: int
    kind: str
    schema: str
    table: str
    sql: str
    visibility: Visibility
    meta: str = ""


def read_marks(
    data: NDArray[np.uint8], table: Table, stored: TableMap, where: str
) -> list[DdlMark]:
    """Marks that whole events (uint8[:]) insert into ``table``. Raises MarkMalformed."""
    found: list[DdlMark] = []
    at = 0
    while at < len(data):
        header = EventHeader.parse(data[at : at + HEADER_LENGTH].tobytes())
        event = data[at : at + header.length].tobytes()
        if header.type_code in _WRITES:
            code = EventType(header.type_code)
            body = event[HEADER_LENGTH : len(event) - CHECKSUM_LENGTH]
            head = RowsHeader.parse(code, body)
            if not head.full or not head.columns == stored.columns == len(table.columns):
                raise _malformed("a row does not have all of its columns", where)
            p = head.rows_at
            while p < len(body):
                p, values = _row(body, p, stored, where)
                names = (c.name.lower() for c in table.columns)
                found.append(_mark(dict(zip(names, values, strict=True)), where))
        at += header.length
    return found


def _row(body: bytes, p: int, stored: TableMap, where: str) -> tuple[int, list[bytes | None]]:
    nulls = body[p : p + (stored.columns + 7) // 8]
    p += len(nulls)
    values: list[bytes | None] = []
    for i, (code, meta) in enumerate(zip(stored.types, stored.metadata, strict=True)):
        if nulls[i >> 3] >> (i & 7) & 1:
            values.append(None)
            continue
        n = width(code, meta)
        if n < 0:
            prefix = -n
            n = int.from_bytes(body[p : p + prefix], "little")
            p += prefix
        if p + n > len(body):
            raise _malformed("a row goes on behind its event", where)
        values.append(body[p : p + n])
        p += n
    return p, values


def _mark(values: dict[str, bytes | None], where: str) -> DdlMark:
    def text(name: str) -> str:
        return (values.get(name) or b"").decode("utf-8", "replace")

    needed = {"id", "sql_kind", "schema_name", "table_name", "ddl_sql", "visibility"}
    if not needed <= values.keys():
        raise _malformed(f"it has no {', '.join(sorted(needed - values.keys()))}", where)
    try:
        visibility = Visibility(int.from_bytes(values["visibility"] or b"\x01", "little"))
    except ValueError:
        raise _malformed("its visibility is none of 0, 1, 2", where) from None
    number = int.from_bytes(values["id"] or b"", "little")
    sql = text("ddl_sql")
    return DdlMark(
        number,
        text("sql_kind"),
        text("schema_name"),
        text("table_name"),
        sql,
        visibility,
        text("meta_info"),
    )


def _malformed(what: str, where: str) -> MarkMalformed:
    return MarkMalformed(what, object=".".join(MARKS), position=where, hint=_HINT)


# Clauses at the end of CREATE TABLE by which a coordinator spreads a table.
_NAMED: Final = ("BROADCAST", "SINGLE", "TABLEGROUP", "LOCALITY")
_OF_DATABASE: Final = ("MODE", "PARTITION_MODE", "LOCALITY")
_GLOBAL: Final = frozenset(("GLOBAL", "CLUSTERED"))
# Objects whose statements change no table's columns, and no rows.
_HARMLESS: Final = frozenset(
    "SEQUENCE VIEW PROCEDURE FUNCTION TRIGGER EVENT TABLEGROUP JOINGROUP USER ROLE".split()
)
# What is done to partitions without a row that comes to another, or goes.
_MOVE_NOTHING: Final = frozenset(("ADD", "RENAME"))
_HARMLESS_HEADS: Final = frozenset(("ANALYZE", "OPTIMIZE", "CHECK", "GRANT", "REVOKE"))


def statement(
    mark: DdlMark, session: Session, where: str, *, placed: bool = False
) -> DdlStatement | None:
    """What consumers of one server are to execute for a mark; None: nothing.

    Hints, comments and what spreads a table over nodes are taken out. ``session`` is the server's.
    ``placed``: the mark tells where the parts of its table are, so that they may move. Raises
    MarkRefused where rows or places of rows change in a way that no statement tells.
    """
    session = replace(session, default_schema=mark.schema)
    text, items = tokenize(mark.sql, session)
    if placed and _empties(items):
        raise _refused(mark, where, "rows go with their parts")
    if not items or _is_harmless(items):
        return None
    public, of_partitions = mark.visibility is Visibility.PUBLIC, _verb_of_partitions(items)
    if placed and (not public or of_partitions):
        return None
    if not public:
        if _of_global_index(items):
            return None
        raise _refused(mark, where, "it may move rows between parts, or empty some")
    if of_partitions in _MOVE_NOTHING:
        return None
    if of_partitions:
        raise _refused(mark, where, "it changes how the table is spread over its parts")
    sql, spread = _without_spreading(text, items, mark, where)
    if not sql:
        return None
    try:
        found = read_ddl(sql, session)
    except DDLNotUnderstood as error:
        raise _refused(mark, where, error.message) from None
    if found.verb is Verb.OTHER:
        return None
    if placed and spread and found.verb is Verb.ALTER and not found.actions:
        return None
    moves = spread and not placed
    if found.verb is Verb.ALTER and (moves or _of_partitions(found)):
        raise _refused(mark, where, "it changes how the table is spread over its parts")
    return found


def _is_harmless(items: list[Item]) -> bool:
    words = [item.word for item in items[:8]]
    return words[0] in _HARMLESS_HEADS or any(w in _HARMLESS for w in words[1:4])


def _empties(items: list[Item]) -> bool:
    """Whether a statement takes rows away with their partitions."""
    return any(
        a.is_word("DROP", "TRUNCATE") and b.is_word("PARTITION", "SUBPARTITION")
        for a, b in pairwise(_outside(items))
    )


def _verb_of_partitions(items: list[Item]) -> str:
    """What ALTER TABLE name *verb* PARTITION does, "" for all other statements."""
    outside = _outside(items)
    dotted = len(outside) > 3 and outside[3].is_punct(".")
    verb, place = (outside[5:6], outside[6:7]) if dotted else (outside[3:4], outside[4:5])
    alters = [item.word for item in outside[:2]] == ["ALTER", "TABLE"]
    named = any(re.fullmatch(r"(SUB)?PARTITION(S|ING)?", item.word) for item in place)
    return verb[0].word if alters and named else ""


def _of_global_index(items: list[Item]) -> bool:
    """Whether a statement is about a global index and nothing else."""
    words = [item.word for item in items]
    if words[0] in ("CREATE", "DROP") and "INDEX" in words[:5]:
        return bool(_GLOBAL.intersection(words[:5]))
    commas = any(item.is_punct(",") for item in _outside(items))
    adds = re.match(
        r"ALTER TABLE \S+(?: \. \S+)? ADD (?:UNIQUE )?(GLOBAL|CLUSTERED)\b",
        " ".join(item.word or item.text for item in items[:9]),
    )
    return bool(adds) and not commas


def _outside(items: list[Item]) -> list[Item]:
    """Items that stand outside of all parentheses."""
    depth, found = 0, []
    for item in items:
        depth -= item.is_punct(")")
        if not depth:
            found.append(item)
        depth += item.is_punct("(")
    return found


def is_broadcast(mark: DdlMark, session: Session) -> bool:
    """Whether a mark makes a table of which each part has all rows."""
    _, items = tokenize(mark.sql, replace(session, default_schema=mark.schema))
    creates = items[:1] != [] and items[0].is_word("CREATE")
    if not creates or not any(item.is_word("TABLE") for item in items[:4]):
        return False
    place = _spreads_at(items, creates=True)
    return any(item.is_word("BROADCAST") and item.start >= place >= 0 for item in items)


def _without_spreading(text: str, items: list[Item], mark: DdlMark, where: str) -> tuple[str, bool]:
    """A statement as one server takes it, "" if nothing is left; whether it spread a table."""
    if _of_global_index(items):
        return "", False
    creates = items[0].is_word("CREATE") and any(i.is_word("TABLE") for i in items[:4])
    place = _spreads_at(items, creates=creates)
    end, spread = (len(text), False) if place < 0 else (place, True)
    cuts = _global_elements(items) if creates else []
    if not creates and _GLOBAL.intersection(item.word for item in items):
        raise _refused(mark, where, "it changes a global index together with something else")
    text = text[:end]
    for start, stop in reversed(cuts):
        text = text[:start] + text[stop:]
    return text.strip().rstrip(";").strip(), spread


def _spreads_at(items: list[Item], *, creates: bool) -> int:
    """Where a statement begins to tell how a table, or database, is spread; -1 if it does not."""
    outside = _outside(items)
    if any(i.is_word("DATABASE", "SCHEMA") for i in items[1:2]):
        return next((i.start for i in outside[3:] if i.is_word(*_OF_DATABASE)), -1)
    behind = 3
    if creates:
        ends = (n for n, i in enumerate(outside) if i.is_punct(")"))
        behind = next(ends, len(outside))
    dotted = len(outside) > 3 and outside[3].is_punct(".")
    for n, (item, following) in enumerate(pairwise([*outside, *outside[-1:]])):
        by = item.is_word("PARTITION") and following.is_word("BY")
        named = item.is_word(*_NAMED) and (creates or n == (5 if dotted else 3))
        if n >= behind and (by or named or item.is_word("DBPARTITION", "TBPARTITION")):
            return item.start
    return -1


def _global_elements(items: list[Item]) -> list[tuple[int, int]]:
    """Places of the global indexes in the list of a CREATE TABLE, each with the comma before it."""
    depth, begin, comma = 0, 0, -1
    found: list[tuple[int, int]] = []
    for i, item in enumerate(items):
        if item.is_punct("("):
            depth += 1
            if depth == 1 and not begin:
                begin = i + 1
        ends = depth == 1 and (item.is_punct(",") or item.is_punct(")"))
        if ends and begin:
            words = [one.word for one in items[begin : begin + 2]]
            if _GLOBAL.intersection(words) and comma >= 0:
                found.append((items[comma].start, item.start))
            comma, begin = i, i + 1
            if item.is_punct(")"):
                return found
        if item.is_punct(")"):
            depth -= 1
    return found


def _of_partitions(found: DdlStatement) -> bool:
    return found.destroys_rows or found.removes_partitions


def _refused(mark: DdlMark, where: str, why: str) -> MarkRefused:
    return MarkRefused(
        f"{why}: {user_data(mark.sql[:200])}",
        object=f"{mark.schema}.{mark.table}",
        position=where,
        hint="create the upstream anew behind it, with changefeeds whose targets have it",
    )
