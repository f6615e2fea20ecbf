"""The parts of a CREATE or ALTER TABLE that translation looks at, by items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cdc.schema.editor import Editor
from cdc.schema.statement import DdlStatement, Verb
from cdc.schema.table import Table
from cdc.schema.tokens import Kind
from sink.schema_change import SchemaChange

_NO_COLUMN = (
    "PRIMARY", "UNIQUE", "KEY", "INDEX", "FULLTEXT", "SPATIAL", "VECTOR", "FOREIGN", "CONSTRAINT",
    "CHECK", "PERIOD", "PARTITION", "SYSTEM", "LIKE",
)  # fmt: skip
_KEYS = ("PRIMARY", "UNIQUE", "KEY", "INDEX", "FULLTEXT", "SPATIAL", "VECTOR", "CONSTRAINT")


@dataclass(frozen=True, slots=True)
class ClauseSpan:
    """Items ``[first, end)`` between commas; ``verb`` is the action of ALTER, "" in a list.

    ``name`` is the item of the column's name behind which its definition begins at ``type``, -1 if
    it is no definition of a column. ``key``: it is about a key.
    """

    first: int
    end: int
    verb: str = ""
    name: int = -1
    type: int = -1
    key: bool = False
    conditional: tuple[int, int] | None = None


def table_behind(change: SchemaChange, parsed: DdlStatement) -> Table | None:
    """The statement's table as it is behind it, also under another name."""
    found = change.after.table(*parsed.targets[0].table)
    if found is None and parsed.others:
        found = change.after.table(*parsed.others[0].table)
    return found


def clauses(editor: Editor, parsed: DdlStatement) -> list[ClauseSpan]:
    """Elements of the column list, or actions; lists in ADD (…) are taken apart."""
    if parsed.verb is Verb.CREATE and not parsed.like:
        start = parsed.body
        if not editor.items[start].is_punct("("):
            return []
        end = editor.closing(start)
        return [_element(editor, a, b) for a, b in split(editor, start + 1, end)]
    if parsed.verb is not Verb.ALTER:
        return []
    found: list[ClauseSpan] = []
    for first, end in split(editor, parsed.body, len(editor.items)):
        found += _action(editor, first, end)
    return found


def split(editor: Editor, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Items ``[a, b)`` between the commas that are not in parentheses within ``[first, end)``."""
    if first >= end:
        return
    depth = editor.depth[first]
    start = first
    for i in range(first, end):
        if editor.depth[i] == depth and editor.items[i].is_punct(","):
            yield start, i
            start = i + 1
    yield start, end


def _element(editor: Editor, first: int, end: int, verb: str = "") -> ClauseSpan:
    item = editor.items[first]
    if item.is_word(*_NO_COLUMN) and not _is_column(editor, first, end):
        return ClauseSpan(first, end, verb, key=item.is_word(*_KEYS))
    return ClauseSpan(first, end, verb, first, first + 1)


def _is_column(editor: Editor, first: int, end: int) -> bool:
    # A column may have such a name where a type follows: "key" int is quoted, but not "period int".
    item = editor.items[first]
    if not item.is_word("PERIOD", "SYSTEM", "VECTOR") or first + 1 >= end:
        return False
    following = editor.items[first + 1]
    return following.kind is Kind.WORD and not following.is_word(
        "FOR", "IF", "VERSIONING", "KEY", "INDEX"
    )


def _action(editor: Editor, first: int, end: int) -> list[ClauseSpan]:
    item = editor.items[first]
    verb = item.word
    i = first + 1
    if verb not in ("ADD", "MODIFY", "CHANGE", "DROP", "RENAME", "ALTER"):
        return [ClauseSpan(first, end, verb)]
    column = i < end and editor.items[i].is_word("COLUMN")
    i += column
    condition = None
    for words in (("IF", "NOT", "EXISTS"), ("IF", "EXISTS")):
        at = next((j for j in (i, i + 1, i + 2) if j < end and editor.words(j, *words)), None)
        if at is not None and condition is None:
            condition = (at, at + len(words) - 1)
            if at == i:
                i += len(words)
    if verb in ("DROP", "RENAME", "ALTER") or i >= end:
        key = i < end and editor.items[i].is_word("KEY", "INDEX")
        return [ClauseSpan(first, end, verb, key=key, conditional=condition)]
    if verb == "CHANGE":
        return [ClauseSpan(first, end, verb, i + 1, i + 2, conditional=condition)]
    if verb == "MODIFY":
        return [ClauseSpan(first, end, verb, i, i + 1, conditional=condition)]
    if editor.items[i].is_punct("("):
        close = editor.closing(i)
        parts = [_element(editor, a, b, "ADD") for a, b in split(editor, i + 1, close)]
        # The condition stands before all of them.
        return [ClauseSpan(first, end, "ADD", conditional=condition), *parts]
    found = ClauseSpan(i, end) if not column and editor.items[i].is_word(*_NO_COLUMN) else None
    if found is None or _is_column(editor, i, end):
        return [ClauseSpan(first, end, verb, i, i + 1, conditional=condition)]
    key = editor.items[i].is_word(*_KEYS)
    return [ClauseSpan(first, end, verb, key=key, conditional=condition)]
