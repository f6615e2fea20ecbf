"""Key drafts → indexes: names, foreign keys' own keys, prefixes and the server's order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cdc.schema.charsets import bytes_per_character
from cdc.schema.draft import ColumnDraft, KeyDraft, KeyPart
from cdc.schema.session import Session
from cdc.schema.table import Column, Index
from cdc.schema.tokens import DDLNotUnderstood
from cdc.schema.types import BLOBS, GEOMETRIES, TEXTS, blob_bytes

STRINGS = frozenset({"char", "varchar", "binary", "varbinary"})
_SPECIAL = ("FULLTEXT", "SPATIAL", "VECTOR")
_LONG = TEXTS | BLOBS
# Of the length in front of a geometry's bytes.
GEOMETRY_LENGTH_BYTES = 4
# The longest key part in bytes, by engine (InnoDB: row format DYNAMIC).
_LONGEST_PART = {"myisam": 1000, "mrg_myisam": 1000, "memory": 3072, "blackhole": 3072}


def inline_keys(draft: ColumnDraft, session: Session) -> list[KeyDraft]:
    """Keys that a column definition makes by PRIMARY KEY, UNIQUE or REFERENCES."""
    keys: list[KeyDraft] = []
    part = [KeyPart(draft.column.name)]
    if draft.primary:
        keys.append(KeyDraft("PRIMARY", "PRIMARY", part))
    # MariaDB forgets UNIQUE next to PRIMARY KEY.
    if draft.unique and not (draft.primary and session.mariadb):
        keys.append(KeyDraft("UNIQUE", "", part))
    # MySQL before 9.0 and MariaDB before 10.5 read REFERENCES of a column and forget it.
    obeyed = session.version >= ((10, 5, 0) if session.mariadb else (9, 0, 0))
    if draft.references and obeyed:
        names = (draft.constraint, "")
        keys.append(KeyDraft("KEY", draft.constraint, part, generated=True, foreign=names))
    return keys


def draft_of(index: Index) -> KeyDraft:
    """An existing index as a draft, to go through the same rules as new ones."""
    kind = "PRIMARY" if index.primary else "UNIQUE" if index.unique else index.kind or "KEY"
    parts = []
    functional = iter(index.expressions)
    for i, name in enumerate(index.columns):
        part = KeyPart(name)
        part.prefix = index.prefixes[i] if index.prefixes else None
        part.descending = index.descending[i] if index.descending else False
        if not name:
            part.expression = next(functional, "")
        parts.append(part)
    return KeyDraft(kind, index.name, parts, index.visible, index.generated, present=True)


def finish(
    drafts: Sequence[KeyDraft],
    columns: Mapping[str, Column],
    periods: Mapping[str, tuple[str, str]],
    session: Session,
    longest: int,
) -> tuple[Index, ...]:
    """Indexes in the server's order. ``columns`` and ``periods`` are by lower-case name.

    ``longest`` is what :func:`longest_part` says of the table.
    """
    taken: set[str] = set()
    made: list[Index] = []
    directed = not session.mariadb and session.version >= (8,)

    def same_length(a: KeyDraft, x: KeyPart, b: KeyDraft, y: KeyPart) -> bool:
        full_text = a if a.kind == "FULLTEXT" else b
        if full_text.kind == "FULLTEXT" and (not session.mariadb or full_text.present):
            # MariaDB takes the word of a new one, which has no length yet.
            return False
        if x.prefix == y.prefix:
            return True
        if not x.name or x.name.lower() not in columns:
            return False
        # A key that stands has the length that the server has found for it.
        return _prefix(x, a, columns, session, longest) == _prefix(y, b, columns, session, longest)

    for key in _without_covered(drafts, same_length, directed=directed):
        parts = _parts(key, columns, periods)
        if key.kind == "KEY" and _is_spatial(parts, columns, session):
            key.kind = "SPATIAL"
        name = key.name or _made_name(parts, columns, taken)
        taken.add(name.lower())
        prefixes = tuple(_prefix(p, key, columns, session, longest) for p in parts)
        made.append(
            Index(
                "PRIMARY" if key.kind == "PRIMARY" else name,
                tuple(columns[p.name.lower()].name if p.name else "" for p in parts),
                unique=key.kind in ("PRIMARY", "UNIQUE"),
                primary=key.kind == "PRIMARY",
                prefixes=prefixes if any(p is not None for p in prefixes) else (),
                descending=tuple(p.descending for p in parts)
                if key.kind not in _SPECIAL
                and _descends(parts, session)
                and not _is_hashed(key, parts, columns, session, longest)
                else (),
                kind=key.kind if key.kind in _SPECIAL else "",
                visible=key.visible,
                generated=key.generated,
                expressions=tuple(p.expression for p in parts if not p.name),
            )
        )
    return tuple(sorted(made, key=lambda index: _rank(index, columns)))


def _is_spatial(parts: Sequence[KeyPart], columns: Mapping[str, Column], session: Session) -> bool:
    # MySQL has no other keys on such columns since 8.0.
    if session.mariadb or session.version < (8, 0) or not parts[0].name:
        return False
    return columns[parts[0].name.lower()].data_type in GEOMETRIES


def _descends(parts: Sequence[KeyPart], session: Session) -> bool:
    # Older servers read DESC and forget it.
    obeyed = session.version >= ((10, 8, 0) if session.mariadb else (8, 0, 0))
    return obeyed and any(part.descending for part in parts)


def _rank(index: Index, columns: Mapping[str, Column]) -> int:
    # The order of the server's own table definition: what identifies a row comes first.
    if index.primary:
        return 0
    if index.unique:
        parts = [columns[name.lower()] for name in index.columns if name]
        return 1 if len(parts) == len(index.columns) and not any(p.nullable for p in parts) else 2
    return 4 if index.kind == "FULLTEXT" else 3


def _parts(
    key: KeyDraft, columns: Mapping[str, Column], periods: Mapping[str, tuple[str, str]]
) -> list[KeyPart]:
    parts: list[KeyPart] = []
    for part in key.parts:
        if part.without_overlaps:
            # MariaDB keeps an application-time key over the period's columns, end first.
            start, end = periods[part.name.lower()]
            parts += [KeyPart(end), KeyPart(start)]
            continue
        if part.name and part.name.lower() not in columns:
            raise DDLNotUnderstood(f"key {key.name!r} names an unknown column {part.name!r}")
        parts.append(part)
    system_time = periods.get("system_time")
    if system_time is None or key.kind not in ("PRIMARY", "UNIQUE"):
        return parts
    # MariaDB: a key of a versioned table is unique among the rows that are current.
    if all(part.name.lower() != system_time[1].lower() for part in parts):
        last = [part.name.lower() for part in parts[-2:]]
        overlaps = any(last == [end.lower(), start.lower()] for start, end in periods.values())
        # Columns of WITHOUT OVERLAPS stay the last.
        parts.insert(len(parts) - 2 * overlaps, KeyPart(system_time[1]))
    return parts


def _made_name(parts: Sequence[KeyPart], columns: Mapping[str, Column], taken: set[str]) -> str:
    base = columns[parts[0].name.lower()].name if parts[0].name else "functional_index"
    if base.lower() not in taken and base.lower() != "primary":
        return base
    number = 2
    while f"{base}_{number}".lower() in taken:
        number += 1
    return f"{base}_{number}"


_SameLength = Callable[[KeyDraft, KeyPart, KeyDraft, KeyPart], bool]


def _without_covered(
    drafts: Sequence[KeyDraft], same_length: _SameLength, *, directed: bool
) -> list[KeyDraft]:
    """Keys without those of foreign keys that another key makes needless.

    ``directed``: a descending part does not stand for an ascending one, as in MySQL since 8.0.
    Each key is held against those before it, and the first that fits decides, as in the servers:
    of two keys of foreign keys over the same columns the later one stays.
    """
    dropped: set[int] = set()
    for i, key in enumerate(drafts):
        for j in range(i):
            other = drafts[j]
            if j in dropped or not _is_prefix(key, other, same_length, directed=directed):
                continue
            shorter = key.generated and len(key.parts) < len(other.parts)
            dropped.add(i if not other.generated or shorter else j)
            break
    return [key for i, key in enumerate(drafts) if i not in dropped]


def _is_prefix(a: KeyDraft, b: KeyDraft, same_length: _SameLength, *, directed: bool) -> bool:
    """Whether one is a key of a foreign key, and the other begins with the same columns."""
    if a.generated and b.generated and len(a.parts) > len(b.parts):
        a, b = b, a
    elif not a.generated:
        if not b.generated:
            return False
        a, b = b, a
    if len(a.parts) > len(b.parts):
        return False
    pairs = zip(a.parts, b.parts, strict=False)
    return all(
        x.name.lower() == y.name.lower()
        and x.name
        and same_length(a, x, b, y)
        and (x.descending == y.descending or not directed)
        for x, y in pairs
    )


def longest_part(engine: str, options: Mapping[str, str], session: Session) -> int:
    """The longest key part in bytes; ``options`` are the table's."""
    if engine == "aria":
        return 2300 if session.version >= (10, 5) else 1000
    if engine == "innodb" and not session.mariadb:
        old = options.get("ROW_FORMAT", "").upper() in ("COMPACT", "REDUNDANT")
        if old or session.version < (5, 7, 7):
            return 767
    return _LONGEST_PART.get(engine, session.innodb_prefix)


def _prefix(
    part: KeyPart,
    key: KeyDraft,
    columns: Mapping[str, Column],
    session: Session,
    longest: int,
) -> int | None:
    if not part.name or key.kind in _SPECIAL:
        return None
    column = columns[part.name.lower()]
    if column.data_type in GEOMETRIES and session.mariadb:
        return _geometry_prefix(column, part, key, session)
    if column.data_type not in STRINGS | _LONG:
        return None
    width = bytes_per_character(column.charset, session)
    prefix = part.prefix
    if column.data_type in STRINGS and prefix is not None and prefix >= (column.length or 0):
        prefix = None
    whole = column.length if column.data_type in STRINGS else None
    if column.data_type in _LONG and session.mariadb:
        # MariaDB takes as much as fits where MySQL wants a length.
        whole = blob_bytes(column.data_type)
        if prefix is not None and whole is not None:
            prefix = min(prefix, whole)
        if key.kind not in ("PRIMARY", "UNIQUE"):
            return min(prefix or whole or 0, whole or 0, longest // width)
    size = prefix if prefix is not None else whole
    if size is not None and size * width > longest and key.kind not in ("PRIMARY", "UNIQUE"):
        return longest // width
    return prefix


def _is_hashed(
    key: KeyDraft,
    parts: Sequence[KeyPart],
    columns: Mapping[str, Column],
    session: Session,
    longest: int,
) -> bool:
    """Whether MariaDB keeps only a hash of a unique key: then no part descends."""
    if not session.mariadb or key.kind != "UNIQUE":
        return False
    for part in parts:
        column = columns[part.name.lower()]
        if part.prefix is None and column.data_type in _LONG | GEOMETRIES - {"point"}:
            return True
        if column.data_type in STRINGS:
            size = (part.prefix or column.length or 0) * bytes_per_character(
                column.charset, session
            )
            if size > longest:
                return True
    return False


def _geometry_prefix(column: Column, part: KeyPart, key: KeyDraft, session: Session) -> int:
    if column.data_type == "point":
        return 25
    if part.prefix:
        return part.prefix
    return (
        (8 if session.version >= (10, 5) else 0) if key.kind == "UNIQUE" else session.innodb_prefix
    )


def with_hidden_lengths(keys: Sequence[KeyDraft], columns: Sequence[ColumnDraft]) -> list[KeyDraft]:
    """Keys that MariaDB printed: of a geometry it shows no length where this is the pointer's."""
    kinds = {draft.column.name.lower(): draft.column.data_type for draft in columns}
    for key in keys:
        for part in key.parts:
            if kinds.get(part.name.lower()) in GEOMETRIES and part.prefix is None:
                part.prefix = GEOMETRY_LENGTH_BYTES
    return list(keys)


def rename_parts(
    index: Index, names: Mapping[str, str | None], replaced: Mapping[str, int]
) -> Index | None:
    """The index after columns were renamed or dropped (None); None if nothing is left of it.

    ``names`` is by lower-case old name. ``replaced`` are columns that were dropped and whose name
    a new one has: keys keep to the name, and to the old column's length.
    """
    if replaced:
        whole = index.prefixes or (None,) * len(index.columns)
        lengths = tuple(
            p if p is not None else replaced.get(n.lower())
            for n, p in zip(index.columns, whole, strict=True)
        )
        index = replace(index, prefixes=lengths)
    keep = [i for i, name in enumerate(index.columns) if names.get(name.lower(), name) is not None]
    if not keep:
        return None
    columns = tuple(names.get(index.columns[i].lower(), index.columns[i]) or "" for i in keep)
    return replace(
        index,
        columns=columns,
        prefixes=tuple(index.prefixes[i] for i in keep) if index.prefixes else (),
        descending=tuple(index.descending[i] for i in keep) if index.descending else (),
    )
