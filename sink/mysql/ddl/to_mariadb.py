"""MySQL's words for MariaDB."""

from __future__ import annotations

from cdc.schema.editor import Editor
from cdc.schema.printed import key_text
from cdc.schema.statement import DdlStatement, Verb
from cdc.schema.table import Table
from cdc.schema.tokens import Item, quoted
from sink.mysql.ddl.server import TargetServer
from sink.mysql.ddl.structure import ClauseSpan, clauses, table_behind
from sink.mysql.ddl.to_mysql import refused
from sink.schema_change import SchemaChange

# Options and attributes of MySQL alone, each with one value behind it.
_DROPPED = (
    "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "AUTOEXTEND_SIZE", "ENCRYPTION",
    "COMPRESSION", "COLUMN_FORMAT",
)  # fmt: skip
_KEY_WORDS = ("VISIBLE", "INVISIBLE")


def translate(
    editor: Editor, parsed: DdlStatement, change: SchemaChange, server: TargetServer
) -> None:
    """Edit the statement. Raises DDLNotTranslatable."""
    _refuse(editor, parsed, change, server)
    parts = clauses(editor, parsed)
    for i, item in enumerate(editor.items):
        if i >= parsed.body:
            _word(editor, i, item)
    for clause in parts:
        _clause(editor, clause)
    _narrower_keys(editor, parts, change, parsed, server)
    if parsed.verb is Verb.CREATE_INDEX:
        _visibility(editor, parsed.body, len(editor.items))


def _word(editor: Editor, i: int, item: Item) -> None:
    last = min(i + 1, len(editor.items) - 1)
    last += last + 1 < len(editor.items) and editor.items[last].is_punct("=")
    if item.is_word("TABLESPACE", "STORAGE") or (item.is_word(*_DROPPED) and editor.depth[i] <= 1):
        editor.remove(i, last) if editor.depth[i] else editor.drop(i, last)
    elif item.is_word("SRID"):
        # MariaDB's REF_SYSTEM_ID limits no values.
        editor.remove(i, last)
    elif item.is_word("ENFORCED") and editor.items[i - 1].is_punct(")"):
        editor.remove(i, i)
    elif editor.words(i, "NOT", "SECONDARY"):
        editor.remove(i, i + 1)
    elif item.is_word("GEOMCOLLECTION"):
        editor.replace(i, i, "GEOMETRYCOLLECTION")
    elif editor.words(i, "DROP", "CHECK"):
        editor.replace(i + 1, i + 1, "CONSTRAINT")


def _refuse(
    editor: Editor, parsed: DdlStatement, change: SchemaChange, server: TargetServer
) -> None:
    after = table_behind(change, parsed)
    before = change.before.table(*parsed.targets[0].table)
    known = _expressions(before)
    if after is not None and _expressions(after) - known:
        raise refused("keys on expressions", server.name)
    if after is not None and any(c.data_type == "vector" for c in after.columns):
        raise refused("VECTOR of MySQL's form", server.name)
    for i, item in enumerate(editor.items):
        if editor.words(i, "NOT", "ENFORCED"):
            raise refused("constraints that are NOT ENFORCED", server.name)
        if item.is_word("ALTER") and i >= parsed.body:
            if editor.items[i + 1].is_word("CHECK", "CONSTRAINT"):
                raise refused("ALTER CHECK", server.name)
            if editor.words(i + 2, "SET", "INVISIBLE") or editor.words(i + 2, "SET", "VISIBLE"):
                raise refused("ALTER COLUMN … SET INVISIBLE", server.name)
            if editor.words(i + 3, "SET", "INVISIBLE") or editor.words(i + 3, "SET", "VISIBLE"):
                raise refused("ALTER COLUMN … SET INVISIBLE", server.name)


def _expressions(table: Table | None) -> set[str]:
    return set() if table is None else {e for i in table.indexes for e in i.expressions}


def _clause(editor: Editor, clause: ClauseSpan) -> None:
    if clause.key:
        _visibility(editor, clause.first, clause.end)
        return
    if clause.name < 0:
        return
    depth = editor.depth[clause.first]
    items = editor.items
    generated = False
    for i in range(clause.type, clause.end):
        if editor.depth[i] != depth:
            continue
        if items[i].is_word("VISIBLE"):
            editor.remove(i, i)
        generated = generated or items[i].is_word("AS")
        if generated and editor.words(i, "NOT", "NULL"):
            # MariaDB lets no such column be NOT NULL; its expression says what it holds.
            editor.remove(i, i + 1)
        elif generated and items[i].is_word("NULL") and not items[i - 1].is_word("NOT"):
            editor.remove(i, i)


def _narrower_keys(
    editor: Editor,
    parts: list[ClauseSpan],
    change: SchemaChange,
    parsed: DdlStatement,
    server: TargetServer,
) -> None:
    """MariaDB drops no column of a wider unique key; with the key, which is made again, it does."""
    before, after = change.before.table(*parsed.targets[0].table), table_behind(change, parsed)
    drops = [clause for clause in parts if clause.verb == "DROP"]
    if before is None or after is None:
        return
    gone = {_dropped(editor, clause) for clause in drops}
    left = {index.name.lower(): index for index in after.indexes}
    again = []
    for index in before.indexes:
        name = index.name.lower()
        columns = {column.lower() for column in index.columns}
        if index.unique and columns & gone and name in left and name not in gone:
            key = "PRIMARY KEY" if index.primary else f"KEY {quoted(index.name)}"
            again.append(f"DROP {key}, ADD {key_text(left[name], server)}, ")
    if again:
        start = editor.items[drops[0].first].start
        editor.put(start, start, "".join(again))


def _dropped(editor: Editor, clause: ClauseSpan) -> str:
    """The name of the column or key that goes, in lower case."""
    item = editor.items[clause.first + 1]
    named = item.is_word("COLUMN", "KEY", "INDEX", "CONSTRAINT")
    return editor.items[clause.first + 1 + named].text.lower()


def _visibility(editor: Editor, first: int, end: int) -> None:
    depth = editor.depth[first]
    for i in range(first, end):
        item = editor.items[i]
        if editor.depth[i] == depth and item.is_word(*_KEY_WORDS):
            editor.replace(i, i, "IGNORED" if item.is_word("INVISIBLE") else "NOT IGNORED")
