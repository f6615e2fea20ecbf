"""Expressions are read as both server families read them; what is no expression is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cdc.base.errors import TidegateError
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from filter.expr.errors import (
    ExpressionColumnNotFound,
    ExpressionNotSupported,
    ExpressionParseFailed,
)
from filter.expr.parse import MAX_LENGTH, Modes, parse
from filter.expr.rowfilter import Condition, compile_filter
from filter.expr.tree import Node, Op
from tests.filter_expr import rows
from tests.filter_expr.generate import Generator

SESSION = Session()
TABLE = parse_create_table(rows.create("t", True), SESSION, schema="s")


def shown(node: Node) -> str:
    """The tree in Lisp's words."""
    if node.args or node.op is Op.CALL:
        head = str(node.value) if node.value != "" else node.op.value
        return f"({' '.join([head, *map(shown, node.args)])})"
    return node.op.value if node.value == "" else str(node.value)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = b = c", "(= (= a b) c)"),
        ("a < b = c", "(= (< a b) c)"),
        ("a + b * c = d | e & f << 1", "(= (+ a (* b c)) (| d (& e (<< f 1))))"),
        ("- a ^ b % c", "(% (^ (- a) b) c)"),
        ("NOT a = b AND c", "(AND (NOT (= a b)) c)"),
        ("!a = b", "(= (NOT a) b)"),
        ("a OR b XOR c AND d", "(OR a (XOR b (AND c d)))"),
        ("a BETWEEN 1 AND 2 AND b", "(AND (BETWEEN a 1 2) b)"),
        ("a NOT IN (1, 2) IS NULL", "(NULL (NOT (IN a 1 2)))"),
        ("a LIKE 'x' ESCAPE '|' OR b", "(OR (LIKE a x |) b)"),
        ("NOT a REGEXP 'x' AND b", "(AND (NOT (REGEXP a x)) b)"),
        ("a NOT RLIKE 'x' | 'y' = c", "(= (NOT (REGEXP a (| x y))) c)"),
        ("a + b REGEXP 'x' 'y'", "(REGEXP (+ a b) xy)"),
        ("CASE a WHEN 1 THEN 2 END", "(True a 1 2 NULL)"),
        ("'a' 'b' = `c`.`d`", "(= ab d)"),
        ("a && b || c", "(OR (AND a b) c)"),
        ("a - -1", "(- a (- 1))"),
    ],
)
def test_precedence(text: str, tree: str) -> None:
    assert shown(parse(text, SESSION)) == tree


def test_modes_and_quotes() -> None:
    ansi = Session(ansi_quotes=True)
    assert shown(parse("\"a\" = 'a'", ansi)) == "(= a a)"
    assert parse('"a" = 1', ansi).args[0].op is Op.COLUMN
    assert parse('"a" = 1', SESSION).args[0].op is Op.STRING
    with pytest.raises(ExpressionNotSupported, match="CONCAT"):
        parse("a || b", SESSION, Modes(pipes_as_concat=True))
    with pytest.raises(ExpressionNotSupported):
        parse("NOT a", SESSION, Modes(high_not_precedence=True))


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "(", ")", "a =", "= a", "a b", "a = 1)", "'a", "a IN ()", "a IN 1", "a BETWEEN 1",
        "a LIKE", "CASE END", "CASE WHEN a", "a = NOT b", "a IN (1) IN (2)", "a IS b", "a -- b",
        "a # b", "a /* b */ = 1", "1.5.3", "f(", "f(,)", "a..b", "IF(a, b", "a = 1;", "a ! b",
        "a REGEXP", "REGEXP 'a'", "a REGEXP 'b' RLIKE 'c'", "a NOT REGEXP",
        "a COLLATE", "a IS NULL = b", "CAST(a AS", "{d '2020-01-01'}", "\x00",
    ],
)  # fmt: skip
def test_what_is_no_expression_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ExpressionParseFailed) as caught:
        Condition(text, TABLE, SESSION, None)
    assert caught.value.position
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "(i8, u8) = (1, 2)", "@x = 1", "sg REGEXP 'a(?=b)'", "sg RLIKE sb", "EXISTS (SELECT 1)",
        "NOW() > dt", "RAND() > 0.5", "sg = sl", "dt > 20260101", "dt > '2026-02-30'", "tm = dt",
        "sg = sg COLLATE latin1_bin", "d1 / 3 = 1", "sg LIKE sb", "dt + INTERVAL 1 DAY > dt",
        "SLEEP(1)", "LOAD_FILE('x')", "CAST(i8 AS CHAR) = '1'", "MATCH (sg) AGAINST ('a')",
        "i64 = '1.5'", "i8 = 9e999", "yr = 26", "sg IN ('a', bi)",
        "i16 IN (18446744073709551615, i8)", "COALESCE(i16, u8) IN (18446744073709551615, i8)",
        "CASE i16 WHEN u64 THEN 1 END = 1", "CASE COALESCE(i16, u8) WHEN i8 THEN 1 END = 1",
        "CASE sg WHEN bi THEN 1 WHEN 'a' THEN 2 END = 1", "LOWER(0x61)",
    ],
)  # fmt: skip
def test_what_cannot_be_exact_is_refused_by_name(text: str) -> None:
    with pytest.raises(ExpressionNotSupported) as caught:
        Condition(text, TABLE, SESSION, None)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["nope = 1", "x.i8 = 1", "s.x.i8 = 1", "q.t.i8 = 1", "1abc = 1"])
def test_unknown_columns_are_named_with_the_table(text: str) -> None:
    with pytest.raises(ExpressionColumnNotFound, match=r"s\.t"):
        Condition(text, TABLE, SESSION, None)


def test_unknown_columns_of_update_only_columns() -> None:
    with pytest.raises(ExpressionColumnNotFound, match="nope"):
        compile_filter(TABLE, SESSION, update_only_columns=["i8", "nope"])


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(" * 5_000 + "i8" + ")" * 5_000,
        "NOT " * 10_000 + "i8",
        "-" * 10_000 + "i8",
        "!" * 10_000 + "i8",
        "~ " * 10_000 + "i8",
        " + ".join(["i8"] * 5_000),
        " = ".join(["i8"] * 5_000),
        "IF(" * 3_000 + "i8",
        "CASE WHEN " * 3_000,
        "i8 BETWEEN 1 AND " * 2_000 + "3",
        "i8 COLLATE x " * 3_000,
        "'" * 60_001,
        "a" * (MAX_LENGTH + 1),
        "i8 IN (" + ", ".join(["u8"] * 10_000) + ")",
    ],
    ids=range(15),
)
def test_depth_and_length_have_limits(text: str) -> None:
    with pytest.raises((ExpressionParseFailed, ExpressionNotSupported)):
        Condition(text, TABLE, SESSION, None)


def test_a_long_list_of_conditions_is_taken() -> None:
    Condition(" OR ".join(f"i8 = {i}" for i in range(2_000)), TABLE, SESSION, None)
    Condition(f"i8 IN ({', '.join(map(str, range(9_000)))})", TABLE, SESSION, None)


_SOUP = (
    "i8 u64 d1 g sg sl dt tm en st bi NULL TRUE 1 -1 0.5 1e3 'a' '2026-01-01' x'41' 0x41 ( ) ( ) ,"
    " + - * / % DIV = <=> < >= AND OR NOT XOR ! ~ | & ^ << IN BETWEEN LIKE ESCAPE IS CASE WHEN THEN"
    " ELSE END IF( COALESCE( NULLIF( ABS( YEAR( COLLATE utf8mb4_bin BINARY DATE TIME . ` \" ' \\ @"
    " REGEXP RLIKE REGEXP_LIKE( '(a|^b)*$' # -- /* */ ; \x00 é 😀 INTERVAL DAY CAST( AS CHAR"
).split(" ")


def _mutated(rng: random.Random, text: str) -> str:
    for _ in range(rng.randint(1, 4)):
        at, n = rng.randrange(len(text) + 1), rng.randint(0, 6)
        piece = rng.choice(("", rng.choice(_SOUP), chr(rng.randrange(1, 0x2FF)), text[:at][-8:]))
        text = text[:at] + piece + text[at + n :]
    return text


@pytest.mark.parametrize("seed", range(4))
def test_whatever_text_comes_only_our_errors_leave(seed: int) -> None:
    rng = random.Random(seed)
    generator: Any = Generator(rng, mysql=True)
    taken = 0
    for _ in range(400):
        for text in (
            " ".join(rng.choice(_SOUP) for _ in range(rng.randint(1, 25))),
            _mutated(rng, generator.condition()),
        ):
            taken += _survives(text)
    assert taken


def _survives(text: str) -> bool:
    try:
        Condition(text, TABLE, SESSION, None)
    except TidegateError as caught:
        refused = caught
    else:
        return True
    assert refused.hint, text
    return False
