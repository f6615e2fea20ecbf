"""JSON functions and operators, by server: which of them are evaluated, over which arguments.

MySQL keeps documents in a binary form, MariaDB as the text that was written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdc.schema.session import Session
from cdc.schema.table import Table
from filter.expr import jsoncolumns as mysql
from filter.expr import jsontexts as mariadb
from filter.expr.convert import refused
from filter.expr.errors import ExpressionNotSupported
from filter.expr.jsoncompare import compare_json, flipped
from filter.expr.jsonpaths import Path, parse_path
from filter.expr.jsontypes import is_null
from filter.expr.tree import Node, Op
from filter.expr.values import Value

_EXTRACTS = ("->", "JSON_EXTRACT")
_JSON_VALUE_SINCE = (8, 0, 21)
_MEASURED = ((10, 11, 0), (12, 0, 0))
# Before, it made question marks of emojis, and compared without case (MDEV-35614).
_UNQUOTE_SINCE = {(10, 11): (10, 11, 19), (11, 8): (11, 8, 6)}
_PARENTHESES = "write JSON_UNQUOTE(JSON_EXTRACT(column, '$.a')), IS NULL, or compare with a literal"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where JSON functions stand: ``ordinal`` finds a column, ``build`` makes a literal."""

    table: Table
    session: Session
    ordinal: Callable[[Node], int]
    build: Callable[[Node], Value]


def is_json(node: Node) -> bool:
    """Whether a node is a call of this module."""
    return node.op is Op.CALL and (node.value in ("->", "->>") or str(node.value)[:5] == "JSON_")


def is_extract(node: Node) -> bool:
    """Whether a node is a part of a document, which is no SQL value."""
    return node.op is Op.CALL and node.value in _EXTRACTS


def _known(node: Node, scope: Scope) -> None:
    """Refuse what the server does not have, and servers that were not measured."""
    session, name = scope.session, str(node.value)
    if name in ("->", "->>") and session.mariadb:
        raise refused(f"{name} on MariaDB", node.at, "write JSON_VALUE(column, '$.a')")
    if not session.mariadb and session.version < (8, 0, 0):
        raise refused(f"{name} of MySQL 5", node.at, "compare other columns")
    if session.mariadb and not _MEASURED[0] <= session.version < _MEASURED[1]:
        version = ".".join(map(str, session.version[:2]))
        raise refused(f"{name} of MariaDB {version}", node.at, "compare other columns")


def call(node: Node, scope: Scope) -> Value:
    """The value of a call; ``ExpressionNotSupported`` for what is not evaluated on that server."""
    name = str(node.value)
    _known(node, scope)
    make = (_ON_MARIADB if scope.session.mariadb else _ON_MYSQL).get(name)
    if is_extract(node):
        raise refused(f"{name} as a value", node.at, _PARENTHESES)
    if make is None:
        raise ExpressionNotSupported(
            f"function {name} is not evaluated here",
            object=scope.table.full_name,
            position=f"offset {node.at}",
            hint="docs/filter-expressions.md lists the functions",
        )
    return make(node, scope)


def _count(node: Node, low: int, high: int) -> None:
    if not low <= len(node.args) <= high:
        raise refused(
            f"{node.value!s} with {len(node.args)} arguments", node.at, "see its description"
        )


def _path(node: Node, scope: Scope) -> Path:
    text = node.value if node.op is Op.STRING else None
    return parse_path(text, scope.session.mariadb, node.at)


def _whole(scope: Scope) -> Path:
    return parse_path("$", scope.session.mariadb, 0)


def place(node: Node, scope: Scope) -> tuple[int, Path]:
    """The column and the path that an argument names: a column, or a part of one."""
    if node.op is Op.COLUMN:
        return scope.ordinal(node), _whole(scope)
    if is_extract(node) and node.args and node.args[0].op is Op.COLUMN:
        if len(node.args) != 2:
            raise refused("JSON_EXTRACT with several paths", node.at, "write one path")
        return scope.ordinal(node.args[0]), _path(node.args[1], scope)
    raise refused("a JSON function of what is no column", node.at, "name a column and a path")


# --- MySQL


def _part(node: Node, scope: Scope) -> Value:
    ordinal, path = place(node, scope)
    return mysql.part(scope.table, ordinal, path, node.at)


def _column_and_path(node: Node, scope: Scope) -> Value:
    if node.args[0].op is not Op.COLUMN:
        raise refused(f"{node.value!s} of what is no column", node.at, "name a column and a path")
    path = _path(node.args[1], scope) if len(node.args) > 1 else _whole(scope)
    return mysql.part(scope.table, scope.ordinal(node.args[0]), path, node.at)


def _arrow(node: Node, scope: Scope) -> Value:
    return mysql.unquoted(_column_and_path(node, scope), node.at)


def _unquote(node: Node, scope: Scope) -> Value:
    _count(node, 1, 1)
    return mysql.unquoted(_part(node.args[0], scope), node.at)


def _value(node: Node, scope: Scope) -> Value:
    _count(node, 2, 2)
    if scope.session.version < _JSON_VALUE_SINCE:
        raise refused("JSON_VALUE before MySQL 8.0.21", node.at, "write column->>'$.a'")
    return mysql.chosen(_column_and_path(node, scope), node.at)


def _type(node: Node, scope: Scope) -> Value:
    _count(node, 1, 1)
    return mysql.type_name(_part(node.args[0], scope), node.at)


def _length(node: Node, scope: Scope) -> Value:
    _count(node, 1, 2)
    found = _part(node.args[0], scope) if len(node.args) == 1 else _column_and_path(node, scope)
    return mysql.length(found, node.at)


def _valid(node: Node, scope: Scope) -> Value:
    _count(node, 1, 1)
    return mysql.valid(_part(node.args[0], scope), node.at)


def _paths(node: Node, scope: Scope) -> tuple[Node, bool, list[Path]]:
    """Of JSON_CONTAINS_PATH: its column, whether all paths must be there, and the paths."""
    _count(node, 3, 64)
    column, mode, *paths = node.args
    every = str(mode.value).upper() == "ALL"
    if mode.op is not Op.STRING or not (every or str(mode.value).upper() == "ONE"):
        raise refused("JSON_CONTAINS_PATH without 'one' or 'all'", node.at, "write 'one' or 'all'")
    if column.op is not Op.COLUMN:
        raise refused("JSON_CONTAINS_PATH of what is no column", node.at, "name a column")
    return column, every, [_path(p, scope) for p in paths]


def _contains_path(node: Node, scope: Scope) -> Value:
    column, every, paths = _paths(node, scope)
    ordinal = scope.ordinal(column)
    parts = [mysql.part(scope.table, ordinal, path, node.at) for path in paths]
    return mysql.contains_path(_part(column, scope), parts, every, node.at)


_ON_MYSQL: dict[str, Callable[[Node, Scope], Value]] = {
    "->>": _arrow,
    "JSON_UNQUOTE": _unquote,
    "JSON_VALUE": _value,
    "JSON_TYPE": _type,
    "JSON_LENGTH": _length,
    "JSON_VALID": _valid,
    "JSON_CONTAINS_PATH": _contains_path,
}

# --- MariaDB


def _text(node: Node, scope: Scope) -> Value:
    if node.op is not Op.COLUMN:
        raise refused("a JSON function of what is no column", node.at, "name a column and a path")
    return mariadb.column(scope.table, scope.ordinal(node), scope.session, node.at)


def _value_in_text(node: Node, scope: Scope) -> Value:
    ordinal, path = place(node, scope)
    text = mariadb.column(scope.table, ordinal, scope.session, node.at)
    return mariadb.part(text, path, node.at)


def _unquote_text(node: Node, scope: Scope) -> Value:
    _count(node, 1, 1)
    if not is_extract(node.args[0]):
        raise refused("JSON_UNQUOTE of a column", node.at, "write JSON_EXTRACT in it")
    version = scope.session.version
    if version < _UNQUOTE_SINCE.get(version[:2], _MEASURED[1]):
        raise refused(
            f"JSON_UNQUOTE of MariaDB {'.'.join(map(str, version))}", node.at,
            "write JSON_VALUE(column, '$.a')",
        )  # fmt: skip
    return mariadb.unquoted(_value_in_text(node.args[0], scope), node.at)


def _value_of_text(node: Node, scope: Scope) -> Value:
    _count(node, 2, 2)
    return mariadb.chosen(_text(node.args[0], scope), _path(node.args[1], scope), node.at)


def _type_in_text(node: Node, scope: Scope) -> Value:
    _count(node, 1, 1)
    return mariadb.type_name(_value_in_text(node.args[0], scope), node.at)


def _length_in_text(node: Node, scope: Scope) -> Value:
    _count(node, 1, 2)
    if is_extract(node.args[0]):
        _count(node, 1, 1)
        return mariadb.length(_value_in_text(node.args[0], scope), node.at)
    text = _text(node.args[0], scope)
    path = _path(node.args[1], scope) if len(node.args) > 1 else _whole(scope)
    return mariadb.length(mariadb.searched(text, path, node.at), node.at)


def _exists_in_text(node: Node, scope: Scope) -> Value:
    _count(node, 2, 2)
    text, path = _text(node.args[0], scope), _path(node.args[1], scope)
    return mariadb.exists([mariadb.searched(text, path, node.at)], True, node.at)


def _valid_text(node: Node, scope: Scope) -> Value:
    _count(node, 1, 1)
    text = _text(node.args[0], scope)
    return mariadb.valid(text, mariadb.part(text, _whole(scope), node.at), node.at)


def _contains_path_in_text(node: Node, scope: Scope) -> Value:
    column, every, paths = _paths(node, scope)
    text = _text(column, scope)
    return mariadb.exists([mariadb.part(text, p, node.at) for p in paths], every, node.at)


_ON_MARIADB: dict[str, Callable[[Node, Scope], Value]] = {
    "JSON_UNQUOTE": _unquote_text,
    "JSON_VALUE": _value_of_text,
    "JSON_TYPE": _type_in_text,
    "JSON_LENGTH": _length_in_text,
    "JSON_EXISTS": _exists_in_text,
    "JSON_VALID": _valid_text,
    "JSON_CONTAINS_PATH": _contains_path_in_text,
}

# --- parts of documents in operators


def absence(node: Node, scope: Scope, at: int) -> Value:
    """``JSON_EXTRACT(…) IS NULL``."""
    _known(node, scope)
    found = (_value_in_text if scope.session.mariadb else _part)(node, scope)
    return is_null(found, at)


def comparison(node: Node, scope: Scope) -> Value:
    """A comparison of which at least one side is a part of a document."""
    left, right = node.args
    op = str(node.value)
    if not is_extract(left):
        left, right, op = right, left, flipped(op)
    _known(left, scope)
    if scope.session.mariadb:
        raise refused(
            "JSON_EXTRACT compared on MariaDB", node.at, "write JSON_VALUE(column, '$.a')"
        )
    literal = right.args[0] if right.op is Op.UNARY and right.value == "-" else right
    if literal.op not in (Op.NUMBER, Op.STRING, Op.BOOL) or (
        literal is not right and literal.op is not Op.NUMBER
    ):
        raise refused(
            "JSON compared with what is no literal", node.at,
            "compare with a number, a string, TRUE or FALSE, or use ->>",
        )  # fmt: skip
    return compare_json(op, _part(left, scope), scope.build(right), literal.op is Op.BOOL, node.at)
