"""Statements as they may be shown."""

from __future__ import annotations

from cdc.schema.session import Session
from cdc.schema.tokens import DDLNotUnderstood, Kind, tokenize

_LENGTH = 500


def shown(sql: str, session: Session, length: int = _LENGTH) -> str:
    """A statement without passwords, which FEDERATED tables have, cut where it is long."""
    try:
        text, items = tokenize(sql, session)
    except DDLNotUnderstood:
        return "(not readable)"
    for i in range(len(items) - 1, 0, -1):
        if items[i].kind is not Kind.STRING:
            continue
        word = items[i - 1 - (i > 1 and items[i - 1].is_punct("="))]
        if word.is_word("CONNECTION", "PASSWORD"):
            text = f"{text[: items[i].start]}'…'{text[items[i].end :]}"
    return text[:length]
