"""Expression text → tree, with the operator precedence of the servers' own grammars.

Tokens are those of sqlglot's MySQL dialect (``cdc.schema.tokens``). The grammar is written out
here, as sqlglot's parser ranks comparisons otherwise than the servers do and drops how a number was
written. Both server families agree on everything that is accepted; where they do not,
parentheses are asked for. MySQL: "Operator Precedence", sql_yacc.yy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdc.schema.session import Session
from cdc.schema.tokens import Item, Kind
from filter.expr.errors import ExpressionParseFailed
from filter.expr.literals import adjacent_number, prefixed_literal
from filter.expr.reader import Reader, items_of
from filter.expr.tree import Node, Op

MAX_LENGTH = 65_536
MAX_DEPTH = 64

_OR, _XOR, _AND, _NOT, _COMPARE, _PREDICATE, _BIT_OR = range(1, 8)
_UNARY = 13
_COMPARISONS = {
    "=": "=", "<=>": "<=>", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
_ARITHMETIC = {
    "|": (7, "|"), "&": (8, "&"), "<<": (9, "<<"), ">>": (9, ">>"), "+": (10, "+"),
    "-": (10, "-"), "*": (11, "*"), "/": (11, "/"), "%": (11, "%"), "DIV": (11, "DIV"),
    "MOD": (11, "%"), "^": (12, "^"),
}  # fmt: skip
_REFUSED = frozenset("SOUNDS MEMBER OVERLAPS MATCH EXISTS SELECT INTERVAL ROW".split())
_RESERVED = frozenset(
    "AND OR XOR NOT IS IN BETWEEN LIKE REGEXP RLIKE DIV MOD CASE WHEN THEN ELSE END NULL TRUE FALSE"
    " ESCAPE COLLATE BINARY SELECT FROM WHERE".split()
)


@dataclass(frozen=True, slots=True)
class Modes:
    """Bits of sql_mode that change how an expression is read, beside those of ``Session``."""

    pipes_as_concat: bool = False
    high_not_precedence: bool = False


def parse(text: str, session: Session, modes: Modes | None = None) -> Node:
    """The tree of an expression; ``ExpressionParseFailed`` names the place."""
    if len(text) > MAX_LENGTH:
        raise ExpressionParseFailed(
            f"an expression of {len(text)} characters is over the limit of {MAX_LENGTH}",
            hint="write it in fewer words, or as several rules",
        )
    parser = _Parser(text, items_of(text, session), modes or Modes())
    tree = parser.expression(0, 0)
    if parser.peek() is not None:
        raise parser.failed("an operator or the end was expected")
    return tree


class _Parser(Reader):
    def __init__(self, text: str, items: list[Item], modes: Modes) -> None:
        super().__init__(text, items)
        self.modes = modes

    def expression(self, floor: int, depth: int) -> Node:
        """All that binds tighter than ``floor``."""
        if depth > MAX_DEPTH:
            raise ExpressionParseFailed(
                f"the expression is nested deeper than {MAX_DEPTH} levels",
                position=f"offset {self.offset()}",
                hint="take parentheses away",
            )
        at = self.offset()
        if self.word("NOT"):
            if floor > _NOT:
                raise self.failed("NOT needs parentheses here")
            if self.modes.high_not_precedence:
                raise self.refused(
                    "NOT under HIGH_NOT_PRECEDENCE", "write ! and parentheses instead"
                )
            left = self.node(Op.UNARY, at, "NOT", self.expression(_NOT, depth + 1))
            level = _NOT
        else:
            left, level = self.prefix(depth), _UNARY
        links = 0
        while True:
            found = self.infix(left, level, floor, depth)
            if found is None:
                return left
            left, level = found
            links += 1
            if links > MAX_DEPTH and left.op not in (Op.AND, Op.OR):
                raise ExpressionParseFailed(
                    f"more than {MAX_DEPTH} operators in a row",
                    position=f"offset {self.offset()}",
                    hint="write it in fewer words",
                )

    def infix(self, left: Node, level: int, floor: int, depth: int) -> tuple[Node, int] | None:
        """``left`` and the operator behind it, or None if that binds no tighter than ``floor``.

        ``level`` is that of ``left``: what binds looser cannot stand left of a tighter operator.
        """
        item = self.peek()
        if item is None or item.kind not in (Kind.WORD, Kind.PUNCT):
            return None
        text = self.operator(item)
        for rank, op, words in (
            (_OR, Op.OR, ("OR", "||")),
            (_XOR, Op.XOR, ("XOR",)),
            (_AND, Op.AND, ("AND", "&&")),
        ):
            if text in words:
                return self.logical(left, item, rank, op, floor, depth)
        if text in _COMPARISONS or text == "IS":
            return self.comparison(left, item, level, floor, depth)
        if text in ("IN", "BETWEEN", "LIKE", "REGEXP", "RLIKE", "NOT") or text in _REFUSED:
            return self.predicate(left, item, level, floor, depth)
        if text in _ARITHMETIC:
            rank, name = _ARITHMETIC[text]
            if rank <= floor:
                return None
            self.allowed(level, rank)
            self.at += 2 if text in ("<<", ">>") else 1
            right = self.expression(rank, depth + 1)
            return self.node(Op.BINARY, item.start, name, left, right), rank
        return None

    def operator(self, item: Item) -> str:
        """The operator in capitals; shifts are two items that touch."""
        following = self.peek(1)
        if following is None or following.start != item.end:
            return item.text.upper()
        if item.text in ("<", ">") and following.is_punct(item.text):
            return item.text * 2
        return item.text.upper()

    def allowed(self, level: int, rank: int) -> None:
        if level < rank:
            raise self.failed("parentheses are needed before this operator")

    def logical(
        self, left: Node, item: Item, rank: int, op: Op, floor: int, depth: int
    ) -> tuple[Node, int] | None:
        if item.text == "||" and self.modes.pipes_as_concat:
            raise self.refused("|| under PIPES_AS_CONCAT", "write CONCAT(…)")
        if rank <= floor:
            return None
        self.at += 1
        right = self.expression(rank, depth + 1)
        if left.op is op and op is not Op.XOR and left.args and not left.quoted:
            joined = Node(op, left.at, "", (*left.args, right))
            return joined, rank
        return self.node(op, item.start, "", left, right), rank

    def comparison(
        self, left: Node, item: Item, level: int, floor: int, depth: int
    ) -> tuple[Node, int] | None:
        if floor >= _COMPARE:
            return None
        self.allowed(level, _COMPARE)
        self.at += 1
        if item.text.upper() != "IS":
            right = self.expression(_COMPARE, depth + 1)
            name = _COMPARISONS[item.text]
            return self.node(Op.COMPARE, item.start, name, left, right), _COMPARE
        negated = self.word("NOT")
        for word in ("NULL", "UNKNOWN", "TRUE", "FALSE"):
            if self.word(word):
                value = "NULL" if word == "UNKNOWN" else word
                found = self.node(Op.IS, item.start, value, left)
                if negated:
                    found = self.node(Op.UNARY, item.start, "NOT", found)
                # The families differ in what may follow IS TRUE: nothing that binds tighter.
                return found, _NOT
        raise self.failed("NULL, TRUE, FALSE or UNKNOWN was expected")

    def predicate(
        self, left: Node, item: Item, level: int, floor: int, depth: int
    ) -> tuple[Node, int] | None:
        if floor >= _PREDICATE:
            return None
        self.allowed(level, _BIT_OR)
        negated = self.word("NOT")
        at = self.offset()
        if self.word("IN"):
            self.need("(")
            found = self.node(Op.IN, at, "", left, *self.list(depth))
        elif self.word("BETWEEN"):
            low = self.expression(_PREDICATE, depth + 1)
            self.need("AND")
            high = self.expression(_COMPARE, depth + 1)
            found = self.node(Op.BETWEEN, at, "", left, low, high)
        elif self.word("LIKE"):
            args = [left, self.prefix(depth + 1)]
            if self.word("ESCAPE"):
                args.append(self.prefix(depth + 1))
            found = self.node(Op.LIKE, at, "", *args)
        elif self.word("REGEXP") or self.word("RLIKE"):
            found = self.node(Op.REGEXP, at, "", left, self.expression(_PREDICATE, depth + 1))
        else:
            following = self.peek()
            name = following.text.upper() if following else "NOT"
            if name in _REFUSED:
                raise self.refused(f"{name} is not supported", "use LIKE or comparisons")
            raise self.failed("IN, BETWEEN, LIKE or REGEXP was expected")
        if negated:
            found = self.node(Op.UNARY, at, "NOT", found)
        return found, _PREDICATE

    def list(self, depth: int) -> list[Node]:
        """Expressions between commas, and the closing parenthesis."""
        found = [self.expression(0, depth + 1)]
        while self.punct(","):
            found.append(self.expression(0, depth + 1))
        self.need(")")
        return found

    def prefix(self, depth: int) -> Node:
        """A literal, name, call or parenthesis with its signs and collation."""
        if depth > MAX_DEPTH:
            self.expression(0, depth)  # raises
        at = self.offset()
        item = self.peek()
        if item is None:
            raise self.failed("a value was expected")
        if self.punct("-"):
            return self.node(Op.UNARY, at, "-", self.prefix(depth + 1))
        if self.punct("+"):
            return self.prefix(depth + 1)
        if self.punct("~"):
            return self.node(Op.UNARY, at, "~", self.prefix(depth + 1))
        if self.punct("!"):
            inside = self.prefix(depth + 1)
            if inside.op is Op.UNARY and inside.value in ("-", "~"):
                raise self.failed("parentheses are needed after !")
            return self.node(Op.UNARY, at, "NOT", inside)
        found = self.atom(item, at, depth)
        while self.word("COLLATE"):
            name = self.peek()
            if name is None or name.kind not in (Kind.WORD, Kind.NAME, Kind.STRING):
                raise self.failed("the name of a collation was expected")
            self.at += 1
            found = self.node(Op.COLLATE, at, name.text.lower(), found)
        return found

    def atom(self, item: Item, at: int, depth: int) -> Node:
        if item.kind is Kind.STRING:
            return self.string(at)
        if item.kind is Kind.NUMBER or (
            item.is_punct(".") and (n := self.peek(1)) is not None and n.kind is Kind.NUMBER
        ):
            return self.number(at)
        if item.kind is Kind.NAME:
            return self.column(at)
        if self.punct("("):
            inside = self.list(depth)
            if len(inside) > 1:
                raise self.refused("rows (a, b) are not supported", "compare each with AND")
            # Marked, so that a list of AND does not swallow the parenthesis's own.
            return Node(inside[0].op, inside[0].at, inside[0].value, inside[0].args,
                        inside[0].qualifier, True)  # fmt: skip
        if item.kind is Kind.WORD:
            return self.named(item, at, depth)
        raise self.failed("a value was expected")

    def string(self, at: int) -> Node:
        parts = []
        while (item := self.peek()) is not None and item.kind is Kind.STRING:
            parts.append(item.text)
            self.at += 1
        return self.node(Op.STRING, at, "".join(parts))

    def number(self, at: int) -> Node:
        literal = prefixed_literal(self.items[self.at].text, None)
        if literal is not None:
            self.at += 1
            return self.node(literal[0], at, literal[1])
        text, taken = adjacent_number(self.text, self.items, self.at)
        if not text:
            raise self.failed("a number was expected")
        self.at += taken
        return self.node(Op.NUMBER, at, text)

    def column(self, at: int) -> Node:
        names = []
        while True:
            item = self.peek()
            if item is None or item.kind not in (Kind.NAME, Kind.WORD):
                raise self.failed("a column was expected")
            self.at += 1
            names.append(item.text)
            if not self.punct("."):
                break
        if len(names) > 3:
            raise self.failed("a column has at most a schema and a table before its name")
        found = self.node(Op.COLUMN, at, names[-1])
        found = Node(found.op, found.at, found.value, (), tuple(names[:-1]))
        item = self.peek()
        if item is None or item.text not in ("->", "->>") or item.kind is not Kind.PUNCT:
            return found
        self.at += 1
        path = self.peek()
        if path is None or path.kind is not Kind.STRING:
            raise self.failed("a JSON path in quotes was expected")
        return self.node(Op.CALL, at, item.text, found, self.string(path.start))

    def named(self, item: Item, at: int, depth: int) -> Node:
        """A word: a literal with a prefix, a constant, a call, or a column."""
        text = item.text.upper()
        if item.text.startswith("@"):
            raise self.refused("variables are not supported", "write the value")
        literal = prefixed_literal(item.text, self.peek(1))
        if literal is not None:
            op, value, taken = literal
            self.at += taken
            return self.node(op, at, value)
        following = self.peek(1)
        if following is not None and following.is_punct("("):
            return self.call(text, at, depth)
        simple: dict[str, Callable[[], Node]] = {
            "NULL": lambda: self.node(Op.NULL, at),
            "TRUE": lambda: self.node(Op.BOOL, at, True),
            "FALSE": lambda: self.node(Op.BOOL, at, False),
            "CASE": lambda: self.case(at, depth),
            "BINARY": lambda: self.node(Op.CAST, at, "BINARY", self.prefix(depth + 1)),
        }
        if text in simple:
            self.at += 1
            return simple[text]()
        if text in _REFUSED or (text.startswith("_") and following is not None
                                and following.kind is Kind.STRING):  # fmt: skip
            raise self.refused(f"{item.text} is not supported", "see docs/filter-expressions.md")
        if text in _RESERVED:
            raise self.failed("a value was expected")
        return self.column(at)

    def call(self, name: str, at: int, depth: int) -> Node:
        self.at += 2
        if name in _REFUSED:
            raise self.refused(f"{name} is not supported", "see docs/filter-expressions.md")
        if name in ("CAST", "CONVERT"):
            return self.cast(name, at, depth)
        if self.punct(")"):
            return self.node(Op.CALL, at, name)
        return self.node(Op.CALL, at, name, *self.list(depth))

    def cast(self, name: str, at: int, depth: int) -> Node:
        inside = self.expression(0, depth + 1)
        self.need("AS" if name == "CAST" else ",")
        words: list[str] = []
        level = 0
        while level or not self.punct(")"):
            item = self.peek()
            if item is None:
                raise self.failed(") was expected")
            level += item.is_punct("(") - item.is_punct(")")
            words.append(item.text.upper())
            self.at += 1
        return self.node(Op.CAST, at, " ".join(words), inside)

    def case(self, at: int, depth: int) -> Node:
        args = []
        following = self.peek()
        operand = following is not None and not following.is_word("WHEN")
        if operand:
            args.append(self.expression(0, depth + 1))
        while self.word("WHEN"):
            args.append(self.expression(0, depth + 1))
            self.need("THEN")
            args.append(self.expression(0, depth + 1))
        if len(args) < 2 + operand:
            raise self.failed("WHEN was expected")
        if self.word("ELSE"):
            args.append(self.expression(0, depth + 1))
        else:
            args.append(self.node(Op.NULL, at))
        self.need("END")
        return self.node(Op.CASE, at, operand, *args)
