"""A statement between the families, and between versions of one."""

from __future__ import annotations

from collections.abc import Iterable

from cdc.schema.charsets import default_collation, full_collation, is_no_text
from cdc.schema.columns import skip_references
from cdc.schema.editor import Editor
from cdc.schema.expressions import read_default
from cdc.schema.statement import DdlStatement, Verb
from cdc.schema.table import Column
from cdc.schema.tokens import Cursor, Kind, quoted
from cdc.schema.types import NUMBERS
from sink.mysql.ddl import to_mariadb, to_mysql
from sink.mysql.ddl.collations import collation_for
from sink.mysql.ddl.errors import DDLNotTranslatable
from sink.mysql.ddl.server import TargetServer
from sink.mysql.ddl.structure import ClauseSpan, clauses, table_behind
from sink.schema_change import SchemaChange, TableName

# Names that one family or version keeps for itself, and another lets stand without quotes.
_RESERVED = frozenset(
    "CUME_DIST DENSE_RANK EMPTY FIRST_VALUE GROUPING GROUPS JSON_TABLE LAG LAST_VALUE LATERAL LEAD"
    " NTH_VALUE NTILE OF PERCENT_RANK RANK SYSTEM TABLESAMPLE QUALIFY MANUAL PARALLEL OFFSET"
    " RETURNING ROWNUM SLOW GENERAL PAGE_CHECKSUM CURRENT_ROLE REF_SYSTEM_ID ROW_NUMBER".split()
)


def translate(
    editor: Editor,
    parsed: DdlStatement,
    change: SchemaChange,
    server: TargetServer,
    table: TableName,
) -> tuple[str, ...]:
    """The statements that do at the target what ``editor``'s does upstream.

    Raises DDLNotTranslatable for what the target's kind does not have.
    """
    _collations(editor, change, server)
    _engines(editor, parsed, change, server)
    _clauses_of_mysql(editor)
    _references(editor, parsed, change, server)
    if change.session.mariadb == server.mariadb:
        return (editor.result(),)
    _refuse_no_text(parsed, change)
    _quoted_names(editor, parsed)
    _hexadecimal_numbers(editor, parsed, change)
    _foreign_names(editor, parsed, change, server)
    if server.mariadb:
        to_mariadb.translate(editor, parsed, change, server)
        return (editor.result(),)
    defaults(editor, parsed, change)
    if to_mysql.translate(editor, parsed, change):
        # Nothing is left of it.
        return ()
    if parsed.verb is Verb.CREATE and parsed.replacing:
        return (f"DROP TABLE IF EXISTS {quoted(*table)}", editor.result())
    return (editor.result(),)


def _collations(editor: Editor, change: SchemaChange, server: TargetServer) -> None:
    charset: str | None = None
    for i, item in enumerate(editor.items):
        if editor.words(i, "CHARACTER", "SET") or item.is_word("CHARSET"):
            charset = _value(editor, i + 1 + item.is_word("CHARACTER"))
        elif item.is_punct(","):
            charset = None
        elif item.is_word("COLLATE") and i + 1 < len(editor.items):
            j = i + 1 + editor.items[i + 1].is_punct("=")
            name = editor.items[j].text
            if editor.items[j].is_word("DEFAULT"):
                if charset is not None:
                    found = default_collation(charset, change.session)
                    editor.replace(j, j, collation_for(found, charset, server))
                continue
            charset = charset or "utf8mb4"
            if server.collations.get(full_collation(name, charset)) is None:
                editor.replace(j, j, collation_for(name, charset, server))


def _value(editor: Editor, i: int) -> str | None:
    items = editor.items
    if i < len(items) and items[i].is_punct("="):
        i += 1
    return items[i].text.lower() if i < len(items) else None


def _engines(
    editor: Editor, parsed: DdlStatement, change: SchemaChange, server: TargetServer
) -> None:
    """Another engine for one that the target lacks: what the upstream took instead, or InnoDB."""
    after = change.after.table(*parsed.targets[0].table)
    other = after.engine if after is not None and after.engine in server.engines else "InnoDB"
    for i, item in enumerate(editor.items):
        if i < parsed.body or not item.is_word("ENGINE") or i + 1 >= len(editor.items):
            continue
        j = i + 1 + editor.items[i + 1].is_punct("=")
        known = server.engines
        if known and editor.items[j].text.lower() not in known | {"heap", "merge", "innobase"}:
            editor.replace(j, j, other)


def _clauses_of_mysql(editor: Editor) -> None:
    """What is about a secondary engine, which is the upstream's own."""
    for i, item in enumerate(editor.items):
        if item.is_word("SECONDARY_ENGINE") and not editor.depth[i]:
            last = i + 1 + (i + 1 < len(editor.items) and editor.items[i + 1].is_punct("="))
            editor.drop(i, min(last, len(editor.items) - 1))


def _references(
    editor: Editor, parsed: DdlStatement, change: SchemaChange, server: TargetServer
) -> None:
    """REFERENCES of a column is obeyed by some servers, and read and forgotten by others."""
    session = change.session
    upstream = _obeys(session.mariadb, session.version)
    target = _obeys(server.mariadb, server.version)
    if upstream is target:
        return
    for clause in clauses(editor, parsed):
        for i in range(clause.type, clause.end) if clause.name >= 0 else ():
            if not editor.items[i].is_word("REFERENCES"):
                continue
            if upstream:
                raise to_mysql.refused("REFERENCES in the definition of a column", server.name)
            cursor = Cursor(editor.text, editor.items)
            cursor.at = i
            skip_references(cursor)
            editor.override(editor.items[i].start, editor.items[cursor.at - 1].end, " ")


def _obeys(mariadb: bool, version: tuple[int, int, int]) -> bool:
    return version >= ((10, 5, 0) if mariadb else (9, 0, 0))


def _refuse_no_text(parsed: DdlStatement, change: SchemaChange) -> None:
    for name in parsed.targets:
        table = change.after.table(*name.table)
        for column in () if table is None else table.columns:
            if any(is_no_text(member) for member in column.members):
                raise DDLNotTranslatable(
                    f"members of column {column.name} are no text of its character set",
                    hint="make the change at the target in its own words, and leave the statement"
                    " out: `cdc cli ddl skip`",
                )


def _quoted_names(editor: Editor, parsed: DdlStatement) -> None:
    items = editor.items
    for i, item in enumerate(items):
        called = i + 1 < len(items) and any(map(items[i + 1].is_punct, "(="))
        if i >= parsed.body and not called and item.is_word(*_RESERVED):
            if item.is_word("SYSTEM") and i + 1 < len(items) and items[i + 1].is_word("VERSIONING"):
                continue
            editor.replace(i, i, quoted(item.text))
    for clause in clauses(editor, parsed):
        if clause.name >= 0 and items[clause.name].kind is Kind.WORD:
            editor.replace(clause.name, clause.name, quoted(items[clause.name].text))


def defaults(editor: Editor, parsed: DdlStatement, change: SchemaChange) -> None:
    """Defaults that are expressions, and those of long columns, in parentheses."""
    for i in _defaults(editor, parsed):
        cursor = Cursor(editor.text, editor.items)
        cursor.at = i
        value = read_default(cursor, change.session)
        first, last = editor.items[i], editor.items[cursor.at - 1]
        now = value.expression and (value.text or "").startswith("current_timestamp")
        wanted = (value.expression and not now) or _is_long(editor, parsed, change, i, value.text)
        if wanted and not first.is_punct("("):
            editor.put(first.start, first.start, "(")
            editor.put(last.end, last.end, ")")


def _foreign_names(
    editor: Editor, parsed: DdlStatement, change: SchemaChange, server: TargetServer
) -> None:
    """The upstream's names for foreign keys whose index has one: MariaDB takes it for both."""
    after = table_behind(change, parsed)
    found = [
        (clause, i)
        for clause in clauses(editor, parsed)
        if clause.name < 0 and clause.verb in ("", "ADD")
        for i in range(clause.first, clause.end)
        if editor.words(i, "FOREIGN", "KEY") and editor.depth[i] == editor.depth[clause.first]
    ]
    if after is None or not found or len(found) > len(after.foreign_keys):
        return
    for (clause, i), name in zip(found, after.foreign_keys[-len(found) :], strict=True):
        item = editor.items[i + 2]
        if item.is_punct("(") or item.is_word("IF"):
            continue
        if server.mariadb:
            editor.remove(i + 2, i + 2)
        start = clause.first + (clause.verb == "ADD")
        editor.replace(start, i + 1, f"CONSTRAINT {quoted(name)} FOREIGN KEY")


def _hexadecimal_numbers(editor: Editor, parsed: DdlStatement, change: SchemaChange) -> None:
    """The default ``X'10'`` of a number: 16 for MySQL, a text of one byte for MariaDB."""
    for clause in clauses(editor, parsed):
        at = next(iter(_defaults_of(editor, clause)), None)
        if at is None or editor.items[at].text[:2].upper() != "X'":
            continue
        # ALTER [COLUMN] c SET DEFAULT x
        name = clause.name if clause.name >= 0 else at - 3
        column = _column(editor, parsed, change, name)
        if column is None or column.default is None:
            continue
        if column.data_type in (*NUMBERS, "year"):
            editor.replace(at, at, column.default)


def _defaults(editor: Editor, parsed: DdlStatement) -> Iterable[int]:
    """Items of values behind DEFAULT in definitions of columns and behind SET DEFAULT."""
    for clause in clauses(editor, parsed):
        yield from _defaults_of(editor, clause)


def _defaults_of(editor: Editor, clause: ClauseSpan) -> Iterable[int]:
    start = clause.type if clause.name >= 0 else clause.first
    if clause.name < 0 and clause.verb != "ALTER":
        return
    depth = editor.depth[clause.first]
    for i in range(start, clause.end - 1):
        if editor.words(i - 1, "SERIAL", "DEFAULT"):
            return
        if editor.items[i].is_word("DEFAULT") and editor.depth[i] == depth:
            yield i + 1
            return


_LONG = (
    "TEXT", "BLOB", "TINYTEXT", "TINYBLOB", "MEDIUMTEXT", "MEDIUMBLOB", "LONGTEXT", "LONGBLOB",
    "JSON", "CLOB", "LONG", "GEOMETRY", "POINT", "POLYGON", "LINESTRING",
)  # fmt: skip


def _is_long(
    editor: Editor, parsed: DdlStatement, change: SchemaChange, i: int, value: str | None
) -> bool:
    if value is None:
        return False
    for clause in clauses(editor, parsed):
        if clause.first <= i < clause.end and clause.name >= 0:
            return editor.items[clause.type].is_word(*_LONG)
        if clause.first <= i < clause.end and clause.verb == "ALTER":
            # ALTER [COLUMN] c SET DEFAULT x
            column = _column(editor, parsed, change, i - 3)
            return column is not None and column.data_type.upper() in _LONG
    return False


def _column(editor: Editor, parsed: DdlStatement, change: SchemaChange, name: int) -> Column | None:
    table = table_behind(change, parsed)
    at = None if table is None else table.positions.get(editor.items[name].text.lower())
    return None if table is None or at is None else table.columns[at]
