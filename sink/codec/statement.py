"""A schema change's statement as the consumers of a topic can carry it out."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cdc.schema.ddl import read_delivered
from cdc.schema.editor import Editor
from cdc.schema.statement import Verb
from cdc.schema.tokens import quoted
from sink.dispatch.target import TargetRouter
from sink.schema_change import SchemaChange, TableName


def statement_text(change: SchemaChange, tables: Collection[TableName], names: TargetRouter) -> str:
    """The statement for consumers who have these tables, under the names that they know."""
    parsed = read_delivered(change.sql, change.session)
    named = [n.table for n in parsed.targets]
    failed = change.session.failed and parsed.verb is Verb.CREATE
    if failed or (parsed.verb is Verb.DROP and (names or set(tables) != set(named))):
        # Tables that the topic does not have would be an error for its consumers. What MariaDB logs
        # of a CREATE OR REPLACE that failed: the old table is gone.
        listed = ", ".join(quoted(*names.target(*table)) for table in tables)
        return f"DROP TABLE {'IF EXISTS ' if failed or parsed.conditional else ''}{listed}"
    if parsed.verb is Verb.RENAME:
        kept = list(_renames(change, parsed.renames))
        if names or [name for pair in kept for name in pair] != named:
            moves = ((quoted(*names.target(*a)), quoted(*names.target(*b))) for a, b in kept)
            return f"RENAME TABLE {', '.join(f'{old} TO {new}' for old, new in moves)}"
    c = parsed.cursor()
    editor = Editor(c.text, c.items)
    begins = _begins(editor) if parsed.verb is Verb.CREATE else None
    if not names and begins is None:
        return change.sql
    if begins is not None:
        editor.remove(begins, begins + 1)
    if names:
        for name in (*parsed.targets, *parsed.others):
            editor.put(name.start, name.end, quoted(*names.target(*name.table)))
        if parsed.schema_at is not None:
            editor.put(*parsed.schema_at, quoted(names.target_schema(parsed.schema)))
    return editor.result().strip()


def _begins(editor: Editor) -> int | None:
    """Where CREATE TABLE says START TRANSACTION: MySQL logs one AS SELECT so.

    Its rows follow as ordinary ones.
    """
    places = range(len(editor.items) - 1)
    found = (i for i in places if editor.words(i, "START", "TRANSACTION") and not editor.depth[i])
    return next(found, None)


def _renames(
    change: SchemaChange, pairs: Collection[tuple[TableName, TableName]]
) -> Iterator[tuple[TableName, TableName]]:
    """Those that move a table, not a view or a sequence, which the changefeed delivers."""
    moved: set[TableName] = set()
    for old, new in pairs:
        if (old in moved or change.before.has_table(*old)) and {old, new} & set(change.replicated):
            moved = (moved - {old}) | {new}
            yield old, new
