"""The constant parts of statements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cdc.schema.table import Table
from cdc.schema.tokens import quoted
from sink.mysql.connection import Target

_FREE_MARIADB = "SET STATEMENT foreign_key_checks=0 FOR "
_FREE_MYSQL = " /*+ SET_VAR(foreign_key_checks=OFF) */"
_ALIAS_SINCE = (8, 0, 19)


class Words(NamedTuple):
    """What stands before, between and after the rows of a statement.

    ``free`` is the head of one that does not check foreign keys.
    """

    head: str
    free: str
    between: str
    tail: str


def words(
    table: Table,
    columns: Sequence[str],
    changed: Sequence[str],
    keys: Sequence[str],
    target: Target,
    *,
    replace: bool,
    upsert: bool,
    referred_to: bool,
    given: Sequence[tuple[str, str]] = (),
) -> tuple[Words, Words, Words, Words]:
    """Of INSERT (with ``replace`` or ``upsert`` one that can be repeated), upsert, UPDATE, DELETE.

    ``columns`` are all that are written, ``changed`` those that an upsert sets, ``keys`` those that
    identify a row, none if the table has no key. REPLACE of a row that others refer to
    (``referred_to``) checks no foreign keys, or their rows would go with it. ``given`` are columns
    that all rows have one value of, as a literal; they stand before the others.
    """
    name = quoted(table.schema, table.name)
    first_of = "".join(f"{value}," for _, value in given)
    listed = ",".join(quoted(column) for column in (*(c for c, _ in given), *columns))
    into = f" INTO {name} ({listed}) VALUES ({first_of}"
    between = f"),({first_of}"
    insert = _words("INSERT", into, between, ")", target)
    upserts = insert._replace(tail=")" + _on_duplicate(changed or keys, target))
    first = insert
    if upsert:
        first = upserts
    elif replace:
        first = _words("REPLACE", into, between, ")", target)
        first = first._replace(head=first.free) if referred_to else first
    limit = "" if keys else " LIMIT 1"
    update = _words("UPDATE", f" {name} SET ", "", limit, target)
    only = given_condition(given)
    if len(keys) == 1:
        listed = f" FROM {name} WHERE {only}{quoted(keys[0])} IN ("
        delete = _words("DELETE", listed, ",", ")", target)
    elif keys:
        delete = _words("DELETE", f" FROM {name} WHERE {only}((", ") OR (", "))", target)
    else:
        delete = _words("DELETE", f" FROM {name}", "", limit, target)
    return first, upserts, update, delete


def given_condition(given: Sequence[tuple[str, str]]) -> str:
    """What stands before other conditions, so that rows of other tables are not meant."""
    return "".join(f"{quoted(column)}={value} AND " for column, value in given)


def _words(verb: str, rest: str, between: str, tail: str, target: Target) -> Words:
    free = _FREE_MARIADB + verb + rest if target.mariadb else verb + _FREE_MYSQL + rest
    return Words(verb + rest, free, between, tail)


def _on_duplicate(columns: Sequence[str], target: Target) -> str:
    # MySQL deprecates VALUES(), MariaDB and older servers know nothing else.
    new = "VALUES({})"
    alias = ""
    if not target.mariadb and _version(target.version) >= _ALIAS_SINCE:
        new, alias = "tidegate_new.{}", " AS tidegate_new"
    changes = ",".join(f"{quoted(c)}={new.format(quoted(c))}" for c in columns)
    return f"{alias} ON DUPLICATE KEY UPDATE {changes}"


def _version(text: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else ()
