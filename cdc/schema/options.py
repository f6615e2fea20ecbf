"""Options of tables and databases."""

from __future__ import annotations

from cdc.schema.charsets import normal_charset, normal_collation
from cdc.schema.draft import Options
from cdc.schema.tokens import Cursor, Item, Kind

_ENGINES = {
    "heap": "memory",
    "maria": "aria",
    "merge": "mrg_myisam",
    "innobase": "innodb",
    "ndb": "ndbcluster",
}
_KNOWN = frozenset(
    "innodb myisam memory mrg_myisam aria csv archive blackhole federated ndbcluster rocksdb "
    "spider connect mroonga sphinx s3 columnstore oqgraph tokudb sequence example partition".split()
)
# What ends a list of table options.
_AFTER = ("PARTITION", "AS", "SELECT", "IGNORE", "REPLACE", "WITH", "TABLE", "VALUES")


def engine_name(text: str) -> str | None:
    """The lower-case name of an engine that goes by several; None if there is no such engine.

    A server that takes an unknown one takes another for it (NO_ENGINE_SUBSTITUTION is not set).
    """
    name = _ENGINES.get(text.lower(), text.lower())
    return name if name in _KNOWN else None


def read_charset_or_collation(c: Cursor, options: Options) -> bool:
    """``[DEFAULT] CHARACTER SET [=] x`` or ``[DEFAULT] COLLATE [=] x`` if it comes next."""
    at = c.at
    c.word("DEFAULT")
    if c.word("CHARACTER", "SET") or c.word("CHAR", "SET") or c.word("CHARSET"):
        c.punct("=")
        if c.word("DEFAULT"):
            options.default_charset = True
        else:
            options.charset = normal_charset(c.next().text)
        return True
    if c.word("COLLATE"):
        c.punct("=")
        if c.word("DEFAULT"):
            options.default_collation = True
        else:
            options.collation = normal_collation(c.next().text)
        return True
    c.at = at
    return False


def read_option(c: Cursor, options: Options) -> bool:
    """One table option if one comes next."""
    item = c.peek()
    if item is None:
        return False
    if read_charset_or_collation(c, options):
        return True
    if c.word("WITH", "SYSTEM", "VERSIONING"):
        options.versioned = True
        return True
    if c.word("WITHOUT", "SYSTEM", "VERSIONING"):
        options.versioned = False
        return True
    if c.word("START", "TRANSACTION"):
        return True
    if c.word("DATA", "DIRECTORY") or c.word("INDEX", "DIRECTORY"):
        c.punct("=")
        c.next()
        return True
    if c.word("STORAGE"):
        c.next()
        return True
    if item.kind not in (Kind.WORD, Kind.NAME) or item.is_word(*_AFTER):
        return False
    return _named(c, item, options)


def _clamped(text: str) -> str:
    # The server keeps four bytes.
    return str(min(int(text), 0xFFFFFFFF)) if text.isdigit() else text


def _named(c: Cursor, item: Item, options: Options) -> bool:
    c.next()
    c.punct("=")
    name = item.text.upper()
    value = c.peek()
    if value is not None and value.is_punct("("):
        c.skip_group()
        return True
    if value is not None and value.kind is Kind.PUNCT and value.text in "+-":
        c.next()
    text = c.next().text
    if name in ("ENGINE", "TYPE"):
        options.engine = engine_name(text)
    elif name == "COMMENT":
        options.comment = text
    elif name != "AUTO_INCREMENT":
        # That one is a counter of rows, which no statement has to follow.
        options.others[name] = _clamped(text) if name in ("MAX_ROWS", "MIN_ROWS") else text
    return True
