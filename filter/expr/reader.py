"""Reads the items of an expression one after the other, and makes its nodes."""

from __future__ import annotations

from cdc.schema.session import Session
from cdc.schema.tokens import DDLNotUnderstood, Item, Kind, tokenize
from filter.expr.errors import ExpressionNotSupported, ExpressionParseFailed
from filter.expr.tree import Node, Op

MAX_NODES = 20_000


def items_of(text: str, session: Session) -> list[Item]:
    """The words of a text; ``ExpressionParseFailed`` for comments and open quotes."""
    try:
        plain, items = tokenize(text, session)
    except DDLNotUnderstood as error:
        raise ExpressionParseFailed(
            "the text cannot be split into words",
            position="offset 0",
            hint="close every quote; quote names that are no plain words with backticks",
        ) from error
    if plain != text:
        items = []
    at = 0
    for item in [*items, Item(Kind.PUNCT, "", len(text), len(text))]:
        # sqlglot drops comments, and takes -- for one where a server reads two signs.
        if text[at : item.start].strip():
            raise ExpressionParseFailed(
                "comments are not part of an expression",
                position=f"offset {at}",
                hint="leave the comment out; write a space between two signs",
            )
        at = item.end
    return items


class Reader:
    """Where a parser stands in its items."""

    def __init__(self, text: str, items: list[Item]) -> None:
        self.text, self.items, self.at = text, items, 0
        self.nodes = 0

    def peek(self, ahead: int = 0) -> Item | None:
        """The item ``ahead`` of the next, or None at the end."""
        i = self.at + ahead
        return self.items[i] if i < len(self.items) else None

    def word(self, *words: str) -> bool:
        """Takes these words if they come next, all of them."""
        for i, expected in enumerate(words):
            item = self.peek(i)
            if item is None or not item.is_word(expected):
                return False
        self.at += len(words)
        return True

    def punct(self, text: str) -> bool:
        """Takes this punctuation if it comes next."""
        item = self.peek()
        if item is None or not item.is_punct(text):
            return False
        self.at += 1
        return True

    def need(self, text: str) -> None:
        """Takes a word or a punctuation, or fails."""
        taken = self.word(text) if text.isalpha() else self.punct(text)
        if not taken:
            raise self.failed(f"{text} was expected")

    def offset(self) -> int:
        """Where the next item begins."""
        item = self.peek()
        return item.start if item is not None else len(self.text)

    def failed(self, what: str) -> ExpressionParseFailed:
        """An error that shows the text around the next item."""
        at = self.offset()
        near = self.text[max(0, at - 20) : at + 30]
        return ExpressionParseFailed(
            what,
            object=f"near {near!r}",
            position=f"offset {at}",
            hint="check it in the upstream with SELECT … WHERE",
        )

    def refused(self, what: str, hint: str) -> ExpressionNotSupported:
        """An error about something that is not evaluated."""
        return ExpressionNotSupported(what, position=f"offset {self.offset()}", hint=hint)

    def node(self, op: Op, at: int, value: str | bytes | bool = "", *args: Node) -> Node:
        """A new node; fails if there are too many."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise ExpressionParseFailed(
                f"the expression has more than {MAX_NODES} parts",
                position=f"offset {at}",
                hint="write it as several rules",
            )
        return Node(op, at, value, args)
