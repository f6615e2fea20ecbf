"""A statement of the upstream in the target's words.

Everything is done on the items of ``cdc.schema.tokens``: comments are resolved as the upstream's
server read them, and names are found by the grammar.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdc.schema.charsets import default_collation, normal_charset
from cdc.schema.ddl import read_delivered
from cdc.schema.editor import Editor
from cdc.schema.session import Session
from cdc.schema.statement import DdlStatement, Verb
from cdc.schema.table import Table
from cdc.schema.tokens import quoted
from sink.mysql.ddl.collations import collation_for
from sink.mysql.ddl.errors import DDLNotTranslatable
from sink.mysql.ddl.server import TargetServer
from sink.mysql.ddl.structure import split, table_behind
from sink.mysql.ddl.translate import translate
from sink.schema_change import SchemaChange, TableName

_COLUMN_VERBS = ("ADD", "MODIFY", "CHANGE")
Route = Callable[[str, str], TableName]


def identity(schema: str, name: str) -> TableName:
    """The route of a target that has the upstream's names."""
    return schema, name


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What is to be executed, one statement after the other; none: the target has nothing to do.

    ``tables`` are (upstream's name, target's name) of what the statements change. ``renames`` are
    target names, old and new, in order; they and DROP have no ``statements``, for only the target
    shows what is left of them. ``model`` is the target's name of the table behind LIKE.
    """

    verb: Verb
    statements: tuple[str, ...]
    tables: tuple[tuple[TableName, TableName], ...] = ()
    renames: tuple[tuple[TableName, TableName], ...] = ()
    schema: str = ""
    repeatable: bool = True
    model: TableName | None = None


def rewrite(change: SchemaChange, server: TargetServer, route: Route = identity) -> Rewritten:
    """The change for a target.

    Raises DDLNotTranslatable for what that kind of server does not have, DDLNotUnderstood for what
    is no statement about tables or databases.
    """
    parsed = read_delivered(change.sql, change.session)
    if parsed.verb is Verb.DATABASE:
        return _database(change, parsed, server, route)
    if parsed.verb is Verb.RENAME:
        return _rename(change, parsed, route)
    if change.session.failed:
        return _failed(change, parsed, route)
    tables = tuple((name, route(*name)) for name in _concerned(change, parsed))
    if not tables or _no_effect(change, parsed):
        return Rewritten(parsed.verb, (), ())
    if parsed.verb is Verb.DROP:
        return Rewritten(parsed.verb, (), tables)
    if parsed.verb is Verb.TRUNCATE:
        return Rewritten(parsed.verb, (f"TRUNCATE TABLE {quoted(*tables[0][1])}",), tables)
    c = parsed.cursor()
    editor = Editor(c.text, c.items, parsed.first)
    if parsed.verb is Verb.ALTER:
        editor.actions = list(split(editor, parsed.body, len(editor.items)))
    for named in (*parsed.targets, *parsed.others):
        editor.put(named.start, named.end, quoted(*route(*named.table)))
    _plain(editor, parsed)
    if parsed.verb in (Verb.CREATE, Verb.ALTER) and not parsed.like:
        _charsets(editor, parsed, change, server)
    statements = translate(editor, parsed, change, server, tables[0][1])
    return Rewritten(
        parsed.verb,
        statements,
        tables,
        repeatable=not parsed.exchanges,
        model=route(*parsed.others[0].table) if parsed.like else None,
    )


def _failed(change: SchemaChange, parsed: DdlStatement, route: Route) -> Rewritten:
    """A statement that ended with an error: what of it had happened, which can only be drops."""
    gone = [
        (name, route(*name))
        for name in change.replicated
        if change.before.table(*name) is not None and change.after.table(*name) is None
    ]
    return Rewritten(Verb.DROP, (), tuple(gone))


def _keys(change: SchemaChange, names: set[TableName]) -> set[TableName]:
    return {_key(change, name) for name in names}


def _key(change: SchemaChange, name: TableName) -> TableName:
    return change.before.key(name[0]), change.before.key(name[1])


def _no_effect(change: SchemaChange, parsed: DdlStatement) -> bool:
    """``IF [NOT] EXISTS`` of a table, and the upstream did nothing."""
    if not parsed.conditional or parsed.replacing:
        return False
    there = change.before.table(*parsed.targets[0].table) is not None
    if parsed.verb is Verb.CREATE:
        return there
    return parsed.verb is Verb.ALTER and not there


def _concerned(change: SchemaChange, parsed: DdlStatement) -> list[TableName]:
    """Tables that the statement changes: of DROP those that are replicated, else all or none.

    An ALTER with a second table, which it renames to or exchanges with, is about both.
    """
    touched, replicated = _keys(change, set(change.tables)), _keys(change, set(change.replicated))
    named = [*parsed.targets, *(parsed.others if parsed.verb is Verb.ALTER else ())]
    names = list(dict.fromkeys(n.table for n in named if _key(change, n.table) in touched))
    ours = [name for name in names if _key(change, name) in replicated]
    return ours if parsed.verb is Verb.DROP or not ours else names


def _rename(change: SchemaChange, parsed: DdlStatement, route: Route) -> Rewritten:
    """Of a list of renames those that move a replicated table, from its first name to its last."""
    replicated = _keys(change, set(change.replicated))
    origin: dict[TableName, TableName] = {}
    moves: list[tuple[TableName, TableName, TableName]] = []
    for old, new in parsed.renames:
        first = origin.pop(_key(change, old), old)
        if change.before.table(*first) is not None:
            moves.append((first, old, new))
            origin[_key(change, new)] = first
    final = {_key(change, first): name for name, first in origin.items()}
    kept = [
        (old, new)
        for first, old, new in moves
        if {_key(change, first), final.get(_key(change, first))} & replicated
    ]
    names = dict.fromkeys(name for pair in kept for name in pair)
    return Rewritten(
        Verb.RENAME,
        (),
        tuple((name, route(*name)) for name in names),
        tuple((route(*old), route(*new)) for old, new in kept),
    )


def _database(
    change: SchemaChange, parsed: DdlStatement, server: TargetServer, route: Route
) -> Rewritten:
    schema = route(parsed.schema, "")[0]
    name = quoted(schema)
    if parsed.kind == "drop database":
        return Rewritten(Verb.DATABASE, (f"DROP DATABASE IF EXISTS {name}",), schema=schema)
    after = change.after.database(parsed.schema)
    if after is None or (parsed.conditional and change.before.database(parsed.schema) is not None):
        return Rewritten(Verb.DATABASE, (), schema=schema)
    collation = collation_for(after.collation, after.charset, server)
    clause = f"CHARACTER SET {after.charset} COLLATE {collation}"
    if parsed.kind == "alter database":
        return Rewritten(Verb.DATABASE, (f"ALTER DATABASE {name} {clause}",), schema=schema)
    made: tuple[str, ...] = (f"CREATE DATABASE {name} {clause}",)
    if parsed.replacing:
        made = (f"DROP DATABASE IF EXISTS {name}", *made)
    return Rewritten(Verb.DATABASE, made, schema=schema)


def _plain(editor: Editor, parsed: DdlStatement) -> None:
    """Without what is the upstream's own business: waiting, ways of copying, places of files."""
    i = parsed.first
    while i < len(editor.items):
        i = _plain_at(editor, parsed, i) or i + 1


def _plain_at(editor: Editor, parsed: DdlStatement, i: int) -> int:
    """Removes what begins at item i; the index behind it, 0 if nothing was removed."""
    items, depth = editor.items, editor.depth[i]
    if items[i].is_word("DISCARD", "IMPORT") and depth == 0 and i >= parsed.body:
        raise DDLNotTranslatable(
            "files of a table, which are put in by hand, are not delivered",
            hint="load the table's rows at the target, and leave the statement out:"
            " `cdc cli ddl skip`",
        )
    if items[i].is_word("SECONDARY_LOAD", "SECONDARY_UNLOAD") and depth == 0:
        editor.drop(i, i)
        return i + 1
    if depth == 0 and i < parsed.body and items[i].is_word("ONLINE", "OFFLINE"):
        editor.remove(i, i)
        return i + 1
    if depth == 0 and items[i].is_word("WAIT", "NOWAIT") and _may_wait(editor, parsed, i):
        last = i + items[i].is_word("WAIT")
        editor.remove(i, last)
        return last + 1
    if editor.words(i, "START", "TRANSACTION") and depth == 0:
        editor.remove(i, i + 1)
        return i + 2
    if editor.words(i, "DATA", "DIRECTORY") or editor.words(i, "INDEX", "DIRECTORY"):
        last = i + 2 + (i + 2 < len(items) and items[i + 2].is_punct("="))
        editor.remove(i, last)
        return last + 1
    return _method(editor, parsed, i) if depth == 0 and i >= parsed.body else 0


def _may_wait(editor: Editor, parsed: DdlStatement, i: int) -> bool:
    """Whether item i is where a statement says how long it waits: behind its name or its key."""
    items = editor.items
    if parsed.verb is Verb.CREATE_INDEX:
        return i > parsed.body and items[i - 1].is_punct(")")
    return i < parsed.body and items[i].start >= parsed.targets[0].end


def _method(editor: Editor, parsed: DdlStatement, i: int) -> int:
    """``ALGORITHM = x`` and ``LOCK = x`` of ALTER TABLE and of index statements."""
    items = editor.items
    if not items[i].is_word("ALGORITHM", "LOCK") or parsed.verb is Verb.CREATE:
        return 0
    before = items[i - 1]
    listed = parsed.verb is Verb.ALTER
    if listed and not (i == parsed.body or before.is_punct(",")):
        return 0
    last = i + 1 + items[i + 1].is_punct("=")
    if last >= len(items):
        return 0
    editor.drop(i, last)
    return last + 1


def _charsets(
    editor: Editor, parsed: DdlStatement, change: SchemaChange, server: TargetServer
) -> None:
    """Every character set with its collation: the target's defaults may be others."""
    after = table_behind(change, parsed)
    if parsed.verb is Verb.CREATE and after is not None and after.charset:
        close = _table_charset(editor, parsed)
        collation = collation_for(after.collation or "", after.charset, server)
        editor.insert(close, f"DEFAULT CHARACTER SET {after.charset} COLLATE {collation}")
    for i, item in enumerate(editor.items):
        depth = editor.depth[i]
        if i < parsed.body or depth > 1 or (depth == 0 and parsed.verb is Verb.CREATE):
            continue
        if item.is_word("CHARSET"):
            _with_collation(editor, i + 1, change.session, server, after)
        elif editor.words(i, "CHARACTER", "SET") or editor.words(i, "CHAR", "SET"):
            _with_collation(editor, i + 2, change.session, server, after)


def _table_charset(editor: Editor, parsed: DdlStatement) -> int:
    """Removes the table's own charset and collation; the index of what closes the columns."""
    items = editor.items
    start = parsed.body
    if not items[start].is_punct("("):
        return start - 1
    close = editor.closing(start)
    i = close + 1
    while i < len(items) and not items[i].is_word("PARTITION", "AS", "SELECT"):
        length = _charset_option(editor, i)
        if length and editor.depth[i] == 0:
            last = i + length - 1
            if last + 1 < len(items) and items[last + 1].is_punct(","):
                last += 1
            editor.remove(i, last)
            i = last
        i += 1
    return close


def _charset_option(editor: Editor, i: int) -> int:
    """How many items a charset or collation option has that begins at i, 0 if none does."""
    start = i
    if editor.words(i, "DEFAULT"):
        i += 1
    if editor.words(i, "CHARACTER", "SET") or editor.words(i, "CHAR", "SET"):
        i += 2
    elif i < len(editor.items) and editor.items[i].is_word("CHARSET", "COLLATE"):
        i += 1
    else:
        return 0
    if editor.items[i].is_punct("="):
        i += 1
    return i + 1 - start


def _with_collation(
    editor: Editor, i: int, session: Session, server: TargetServer, after: Table | None
) -> None:
    """Adds COLLATE behind the character set whose name comes at item i or behind ``=``."""
    items = editor.items
    if i < len(items) and items[i].is_punct("="):
        i += 1
    if i >= len(items):
        return
    first, end = editor.clause_start(i), editor.clause_end(i)
    about_table = not editor.depth[i] and not items[first].is_word(*_COLUMN_VERBS)
    if about_table:
        # Clauses about the table are one with each other.
        first, end = 0, len(items)
    for j in range(first, end):
        if items[j].is_word("COLLATE", "BINARY") and editor.depth[j] == editor.depth[i]:
            beside = editor.items[editor.clause_start(j)].is_word(*_COLUMN_VERBS)
            if not (about_table and beside):
                return
    if items[i].is_word("DEFAULT"):
        if after is not None and after.charset and after.collation:
            collation = collation_for(after.collation, after.charset, server)
            editor.replace(i, i, f"{after.charset} COLLATE {collation}")
        return
    charset = normal_charset(items[i].text)
    if charset == "binary":
        return
    collation = collation_for(default_collation(charset, session), charset, server)
    editor.insert(i, f"COLLATE {collation}")
