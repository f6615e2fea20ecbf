"""MariaDB's words for MySQL."""

from __future__ import annotations

import re

from cdc.schema.charsets import charset_of_collation
from cdc.schema.editor import Editor
from cdc.schema.statement import DdlStatement, Verb
from cdc.schema.table import Table
from cdc.schema.tokens import Kind, quoted
from sink.mysql.ddl.errors import DDLNotTranslatable
from sink.mysql.ddl.structure import ClauseSpan, clauses, table_behind
from sink.schema_change import SchemaChange

_ASCII = "CHARACTER SET ascii COLLATE ascii_general_ci"
# Types that MySQL has not, and what takes their values as text.
_TYPES = {
    "UUID": f"char(36) {_ASCII}",
    "INET6": f"varchar(45) {_ASCII}",
    "INET4": f"varchar(15) {_ASCII}",
    "VARCHAR2": "varchar",
    "CLOB": "longtext",
    "RAW": "varbinary",
    "NUMBER": "decimal",
}
_OPTIONS = frozenset(
    "ENGINE TYPE AUTO_INCREMENT AVG_ROW_LENGTH CHECKSUM TABLE_CHECKSUM COLLATE COMMENT CHARSET SET"
    " CONNECTION DELAY_KEY_WRITE INSERT_METHOD KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS PACK_KEYS"
    " ROW_FORMAT STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES UNION ALGORITHM".split()
)
_PHRASES = (
    (("SYSTEM", "VERSIONING"), "system versioning"),
    (("AS", "ROW"), "system versioning"),
    (("BY", "SYSTEM_TIME"), "partitions by system time"),
    (("WITHOUT", "OVERLAPS"), "WITHOUT OVERLAPS"),
    (("PERIOD", "FOR"), "periods"),
    (("PERIOD", "IF"), "periods"),
    (("VALUE", "FOR"), "sequences"),
    (("CONVERT", "PARTITION"), "CONVERT PARTITION"),
    (("CONVERT", "TABLE"), "CONVERT TABLE"),
)
_SEQUENCES = re.compile(
    r"\b(?:(?:NEXT|PREVIOUS)\s+VALUE\s+FOR\b|(?:NEXTVAL|LASTVAL|SETVAL)\s*\()", re.IGNORECASE
)
_HINT = "make the change at the target in its own words, and leave the statement out:"


def refused(what: str, server: str) -> DDLNotTranslatable:
    """The error for what a kind of server does not have."""
    return DDLNotTranslatable(f"{server} has no {what}", hint=f"{_HINT} `cdc cli ddl skip`")


def translate(editor: Editor, parsed: DdlStatement, change: SchemaChange) -> bool:
    """Edit the statement; True if it does nothing."""
    _refuse(editor, parsed)
    _refuse_charsets(parsed)
    after = table_behind(change, parsed)
    if parsed.like and after is not None and _asks_sequences(after):
        raise refused("sequences", "MySQL")
    _words(editor, parsed)
    for clause in clauses(editor, parsed):
        if clause.name >= 0:
            _type(editor, clause)
            _never_null(editor, clause, after)
    if parsed.verb is Verb.ALTER:
        return _conditions(editor, parsed, change)
    if parsed.verb in (Verb.CREATE_INDEX, Verb.DROP_INDEX):
        return _index(editor, parsed, change)
    return False


def _refuse(editor: Editor, parsed: DdlStatement) -> None:
    items = editor.items
    for i, item in enumerate(items):
        if item.kind is not Kind.WORD:
            continue
        for words, what in _PHRASES:
            if editor.words(i, *words) and not (i and items[i - 1].is_punct(".")):
                raise refused(what, "MySQL")
        if item.is_word("NEXTVAL", "LASTVAL", "SETVAL") and _opens(editor, i + 1):
            raise refused("sequences", "MySQL")
        if item.is_word("IGNORE") and parsed.first < i < parsed.body:
            raise refused("ALTER IGNORE", "MySQL")
        if item.is_word("VECTOR") and _opens(editor, i + 1):
            raise refused("VECTOR of MariaDB's form", "MySQL")
        if item.is_word("DEFAULT") and i > 1 and items[i - 2].is_word("PARTITION"):
            raise refused("default partition of a list", "MySQL")


def _refuse_charsets(parsed: DdlStatement) -> None:
    """CONVERT TO beside another character set for columns to come: MySQL has one for both."""
    plans = [action.plan for action in parsed.actions]
    converts = [plan.convert for plan in plans if plan.convert is not None]
    charsets = set[str | None]()
    for options in (*converts, *(plan.options for plan in plans)):
        charsets.add(options.charset)
        if options.collation is not None:
            charsets.add(charset_of_collation(options.collation, parsed.session))
    if converts and len(charsets - {None}) > 1:
        raise refused("CONVERT TO beside another default character set", "MySQL")


def _opens(editor: Editor, i: int) -> bool:
    return i < len(editor.items) and editor.items[i].is_punct("(")


def _words(editor: Editor, parsed: DdlStatement) -> None:
    items = editor.items
    for i, item in enumerate(items):
        if i < parsed.body:
            if parsed.verb is Verb.CREATE and parsed.replacing and editor.words(i, "OR", "REPLACE"):
                editor.remove(i, i + 1)
            continue
        if item.kind not in (Kind.WORD, Kind.NAME):
            continue
        before = items[i - 1]
        if item.is_word("PERSISTENT") and before.is_punct(")"):
            editor.replace(i, i, "STORED")
        elif editor.words(i, "NOT", "IGNORED"):
            editor.replace(i, i + 1, "VISIBLE")
        elif item.is_word("IGNORED") and not before.is_word("NOT"):
            editor.replace(i, i, "INVISIBLE")
        elif item.is_word("REF_SYSTEM_ID"):
            last = i + 2 if items[i + 1].is_punct("=") else i + 1
            editor.replace(i, last, f"SRID {items[last].text}")
        elif item.is_word("COMPRESSED") and not _is_value(editor, i):
            last = i + 2 if i + 2 < len(items) and items[i + 1].is_punct("=") else i
            editor.remove(i, last)
        elif editor.depth[i] <= 1 and _is_option(editor, i) and item.text.upper() not in _OPTIONS:
            editor.drop(i, i + 2) if not editor.depth[i] else editor.remove(i, i + 2)


def _is_value(editor: Editor, i: int) -> bool:
    before = editor.items[i - 1]
    return before.is_punct("=") or before.is_word("ROW_FORMAT")


def _is_option(editor: Editor, i: int) -> bool:
    items = editor.items
    if i + 2 >= len(items) or not items[i + 1].is_punct("=") or editor.depth[i + 1] > 1:
        return False
    # An option's value stands alone; what goes on is an expression.
    return not items[i - 1].is_punct("=")


def _type(editor: Editor, clause: ClauseSpan) -> None:
    item = editor.items[clause.type]
    word = item.text.upper()
    if word == "SERIAL":
        parts = editor.items[clause.type : clause.end]
        unique = "" if any(x.is_word("PRIMARY") for x in parts) else " UNIQUE"
        made = f"bigint unsigned NOT NULL AUTO_INCREMENT{unique}"
        editor.replace(clause.type, clause.type, made)
    elif word in _TYPES:
        editor.replace(clause.type, clause.type, _TYPES[word])
    elif word == "YEAR" and _opens(editor, clause.type + 1):
        # However wide, it is the same to MariaDB.
        editor.replace(clause.type, clause.type + 3, "year")
    elif word == "JSON":
        own = any(x.is_word("COLLATE") for x in editor.items[clause.type : clause.end])
        collation = "" if own else " COLLATE utf8mb4_bin"
        editor.replace(clause.type, clause.type, f"longtext CHARACTER SET utf8mb4{collation}")


def _never_null(editor: Editor, clause: ClauseSpan, after: Table | None) -> None:
    """NULL of a column that the primary key makes NOT NULL, which MariaDB reads and forgets."""
    items, depth = editor.items, editor.depth[clause.first]
    at = None if after is None else after.positions.get(items[clause.name].text.lower())
    if after is None or at is None or after.columns[at].nullable:
        return
    for i in range(clause.type + 1, clause.end):
        if editor.depth[i] == depth and items[i].is_word("NULL"):
            if items[i - 1].is_word("DEFAULT"):
                editor.remove(i - 1, i)
            elif not items[i - 1].is_word("NOT", "SET"):
                editor.remove(i, i)


def _asks_sequences(table: Table) -> bool:
    return any(c.default_expression and _SEQUENCES.search(c.default or "") for c in table.columns)


def _conditions(editor: Editor, parsed: DdlStatement, change: SchemaChange) -> bool:
    """Without ``IF [NOT] EXISTS``, by what the upstream's table had; True if nothing is left."""
    if parsed.condition is not None:
        _without_condition(editor, parsed.condition)
    table = change.before.table(*parsed.targets[0].table)
    if table is None:
        raise refused("ALTER TABLE of a sequence", "MySQL")
    columns = set(table.positions)
    keys = {index.name.lower() for index in table.indexes}
    actions = [c for c in clauses(editor, parsed) if c.verb]
    effective = 0
    for clause in actions:
        if clause.verb == "ALTER" and _is_generated(editor, clause, table):
            # Its default, which MySQL lets it not have, and which nothing reads.
            editor.drop(clause.first, clause.end - 1)
            continue
        if clause.conditional is None:
            effective += not (clause.verb == "ADD" and editor.depth[clause.first])
            if clause.verb == "ADD" and clause.name >= 0:
                columns.add(editor.items[clause.name].text.lower())
            continue
        first, last = clause.conditional
        name = editor.items[last + 1].text.lower()
        if editor.items[last + 1].is_punct("("):
            raise refused("ADD COLUMN IF NOT EXISTS (…)", "MySQL")
        there = name in (keys if clause.key else columns)
        if clause.verb == "ADD" and not clause.key and clause.name < 0:
            raise refused("IF NOT EXISTS of a constraint", "MySQL")
        if clause.verb == "DROP" and _drops_constraint(editor, clause):
            raise refused("DROP CONSTRAINT IF EXISTS", "MySQL")
        if there == (clause.verb != "ADD"):
            effective += 1
            editor.remove(first, last)
            if clause.verb == "ADD":
                columns.add(name)
        else:
            editor.drop(clause.first, clause.end - 1)
    return effective == 0


def _is_generated(editor: Editor, clause: ClauseSpan, table: Table) -> bool:
    words = (item.text.lower() for item in editor.items[clause.first + 1 : clause.end])
    name = next((word for word in words if word not in ("column", "if", "exists")), "")
    at = table.positions.get(name)
    about_key = editor.items[clause.first + 1].is_word("INDEX", "KEY")
    return not about_key and at is not None and bool(table.columns[at].expression)


def _drops_constraint(editor: Editor, clause: ClauseSpan) -> bool:
    words = ("CONSTRAINT", "FOREIGN", "CHECK", "PARTITION")
    return editor.items[clause.first + 1].is_word(*words)


def _index(editor: Editor, parsed: DdlStatement, change: SchemaChange) -> bool:
    table = change.before.table(*parsed.targets[0].table)
    if table is None:
        raise refused("index of a sequence", "MySQL")
    if parsed.condition is not None:
        if _has_key(table, parsed.index) is (parsed.verb is Verb.CREATE_INDEX):
            return True
        _without_condition(editor, parsed.condition)
    if parsed.replacing:
        _replace_index(editor, parsed, table)
    return False


def _without_condition(editor: Editor, condition: tuple[int, int]) -> None:
    editor.remove(condition[0], condition[1] - 1)


def _has_key(table: Table, name: str) -> bool:
    return any(index.name.lower() == name.lower() for index in table.indexes)


def _replace_index(editor: Editor, parsed: DdlStatement, before: Table) -> None:
    """One ALTER TABLE that drops the old key, if there was one, and adds the new."""
    table, key = parsed.targets[0], quoted(parsed.index)
    drop = f"DROP INDEX {key}, " if _has_key(before, parsed.index) else ""
    # The table's own replacement is inside of this one, so its name is written again.
    target = editor.replaced(table.start, table.end)
    end = parsed.body - 1
    head = f"ALTER TABLE {target} {drop}ADD {parsed.index_kind} INDEX {key}"
    editor.override(editor.items[parsed.first].start, editor.items[end].end, head)
