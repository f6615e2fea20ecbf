"""Patterns are taken or refused by name, and take a time that their text alone decides."""

from __future__ import annotations

import random
import re

import pytest

from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from filter.expr.errors import ExpressionNotSupported
from filter.expr.regexp import automaton
from filter.expr.regexp.points import Dialect
from filter.expr.regexp.syntax import parse
from filter.expr.rowfilter import Condition
from tests.filter_expr import rows
from tests.filter_expr.regexp_oracle import ours, random_words
from tests.filter_expr.regexps import Patterns

MYSQL = Session(version=(8, 0, 33))
MARIADB = Session(mariadb=True, version=(11, 4, 5))
TABLE = parse_create_table(rows.create("t", True), MYSQL, schema="s")
ICU = Dialect(icu=True, charset="utf8mb4", ignore_case=True)
PCRE = Dialect(icu=False, charset="utf8mb4", ignore_case=True)
EXACT = Dialect(icu=False, charset="utf8mb4", ignore_case=False)


def found(pattern: str, text: str, dialect: Dialect) -> bool:
    return ours(pattern, [text], dialect)[0]


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("a(?=b)", r"\(\?=b…, at character 2"),
        ("(?<!a)b", r"\(\?<!…"),
        ("(?i)a", r"\(\?i\)…"),
        ("(?<n>a)", r"\(\?<n…"),
        ("(?#x)a", r"\(\?#x…"),
        ("(*UTF)a", r"nothing to repeat before \*, at character 2"),
        (r"(a)\1", r"\\1 in a pattern, at character 4"),
        (r"\bword", r"\\b in a pattern"),
        (r"\Aa", r"\\A in a pattern"),
        (r"\p{L}", r"\\p in a pattern"),
        (r"\Qa\E", r"\\Q in a pattern"),
        (r"\x41", r"\\x in a pattern"),
        (r"\R", r"\\R in a pattern"),
        (r"\é", r"\\é in a pattern"),
        ("a\\", r"a \\ at the end of a pattern"),
        ("a++", r"\+ behind a repetition, at character 3"),
        ("a*+", r"\+ behind a repetition"),
        ("a{2}{3}", r"\{ behind a repetition"),
        ("a{,3}", r"a \{ that begins no \{2\}"),
        ("a{1, 2}", r"a \{ that begins no \{2\}"),
        ("{", r"a \{ alone"),
        ("a}", r"a \} alone, at character 2"),
        ("a]", r"a \] alone"),
        ("a{3,2}", r"\{3,2\}, at character 2"),
        ("(a|^b){0}c", r"\{0\}, at character 7"),
        ("a{0,0}", r"\{0,0\}"),
        ("a{2001}", r"\{2001\}"),
        ("*a", r"nothing to repeat before \*, at character 1"),
        ("(|+)", r"nothing to repeat before \+"),
        ("^*a", r"a repeated \^"),
        ("a$?", r"a repeated \$"),
        ("(a", r"a \( without its \)"),
        ("a)", r"a \) without its \("),
        ("[a", r"a \[ without its \]"),
        ("[]", "empty brackets"),
        ("[]a]", "empty brackets"),
        ("[^]a]", "empty brackets"),
        ("[a[b]]", r"a \[ in brackets"),
        ("[a&&b]", "&& in brackets"),
        ("[&-a]", "&- in brackets"),
        ("[a&[:space:]]", r"&\[ in brackets"),
        ("[a-c-[:space:]]", r"-\[ in brackets"),
        ("[:-:]", r"\[:… outside of brackets"),
        ("[:space:]", r"\[:… outside of brackets"),
        ("[.a.]", r"\[\.… outside of brackets"),
        ("[a--b]", "-- in brackets"),
        ("[+--]", "-- in brackets"),
        (r"[\s-a]", "a - that is neither"),
        ("[ab-]c-[", r"a \[ without its \]"),
        ("[z-a]", "a range that ends before it begins"),
        (r"[a-\s]", "a class as the end of a range"),
        ("[a-[:space:]]", r"a - that is neither|a \[ in brackets"),
        ("[[=a=]]", r"a \[ in brackets"),
        ("[[:foo:]]", r"\[:foo:\], which is no class of both"),
        ("[[:alpha:]]", r"\[:alpha:\], which depends"),
        (r"\d+", r"\\d, which depends"),
        (r"[\w]", r"\\w, which depends"),
        ("ა", r"the cases of U\+10D0"),
        ("[ɐ-ɵ]", r"the cases of U\+0264"),
        ("(" * 52 + "a" + ")" * 52, "groups deeper than 50"),
        ("(a|b)*a(a|b){11}", "the pattern is too large"),
        ("((a{1000}){1000}){1000}", "the pattern is too large"),
        ("((((){2000}){2000}){2000}){2000}", "the pattern is too large"),
    ],
)
def test_what_the_engines_read_in_two_ways_is_refused_by_name(pattern: str, named: str) -> None:
    for dialect in (ICU, PCRE):
        with pytest.raises(ExpressionNotSupported, match=named) as caught:
            found(pattern, "", dialect)
        assert caught.value.hint
        assert caught.value.position


def test_what_mysql_alone_cannot_do() -> None:
    for pattern, named in (("", "empty pattern"), ("(a|)*?b", "never ends on MySQL")):
        with pytest.raises(ExpressionNotSupported, match=named):
            found(pattern, "", ICU)
        assert not found(pattern + "x", "", PCRE)


@pytest.mark.parametrize(
    ("expression", "session", "named"),
    [
        ("sg REGEXP 'a'", Session(version=(5, 7, 44)), "REGEXP of MySQL before 8.0.4"),
        ("sg RLIKE 'a'", Session(version=(8, 0, 3)), "REGEXP of MySQL before 8.0.4"),
        ("sg REGEXP 'a'", Session(mariadb=True, version=(10, 6, 0)), "MariaDB before 10.11"),
        ("REGEXP_LIKE(sg, 'a')", MARIADB, "function REGEXP_LIKE"),
        ("REGEXP_LIKE(sg, 'a')", Session(version=(5, 7, 44)), "REGEXP_LIKE of MySQL before"),
        ("REGEXP_LIKE(sg)", MYSQL, "REGEXP_LIKE with 1 arguments"),
        ("REGEXP_LIKE(sg, 'a', 'n')", MYSQL, "flags other than"),
        ("REGEXP_LIKE(sg, 'a', sb)", MYSQL, "flags other than"),
        ("REGEXP_LIKE(sg, 'a', NULL)", MYSQL, "flags other than"),
        ("sg REGEXP sb", MYSQL, "no literal text"),
        ("sg REGEXP CONCAT('a', 'b')", MYSQL, "no literal text"),
        ("sg REGEXP 1", MYSQL, "no literal text"),
        ("sg REGEXP x'61'", MARIADB, "no literal text"),
        ("i8 REGEXP '1'", MYSQL, "REGEXP on a integer"),
        ("st REGEXP 'red'", MYSQL, "REGEXP on a string"),
        ("vb REGEXP 'a'", MYSQL, "REGEXP of bytes on MySQL"),
        ("sl REGEXP 'я'", MYSQL, "latin1 does not have"),
        ("s3 REGEXP '😀'", MYSQL, "utf8mb3 does not have"),
        (r"sg REGEXP '\\d'", MYSQL, r"\\d, which depends"),
        (r"sl REGEXP '[[:upper:]]'", MYSQL, ":upper:"),
    ],
)
def test_what_a_server_does_not_evaluate_as_we_do_is_refused(
    expression: str, session: Session, named: str
) -> None:
    with pytest.raises(ExpressionNotSupported, match=named) as caught:
        Condition(expression, TABLE, session, None)
    assert caught.value.hint


@pytest.mark.parametrize("expression", [
    "sg REGEXP 'a'", "sl NOT RLIKE 'é'", "en REGEXP '^r'", "s3 COLLATE utf8mb3_bin REGEXP 'a'",
    r"slb REGEXP '\\d\\w[[:upper:]]'", "sg REGEXP NULL", "'abc' REGEXP 'b'",
    "UPPER(sg) REGEXP 'A' 'b'", "NOT sg REGEXP 'a' AND i8 = 1", "sg REGEXP 'a' = 1",
])  # fmt: skip
def test_taken_on_both(expression: str) -> None:
    for session in (MYSQL, MARIADB):
        Condition(expression, TABLE, session, None)


def test_each_family_folds_and_ends_lines_in_its_own_way() -> None:
    for pattern, text, icu, pcre in (
        ("ss", "ß", True, False),
        ("s{1}s", "ß", False, False),
        ("(?:s)s", "ß", False, False),
        ("straße", "STRASSE", True, False),
        ("straße", "STRAẞE", True, True),
        ("[ß]", "ẞ", True, True),
        ("[ŉ]", "ʼn", True, False),
        ("[ʼ]n", "ŉ", True, False),
        ("ʼ[n]", "ŉ", False, False),
        ("^fi$", "ﬁ", True, False),
        ("k", "\u212a", True, True),
        ("[^k]", "\u212a", False, False),
        ("[a-z]", "ſ", True, True),
        ("é", "E", False, False),
        ("i", "İ", False, False),
        ("σ", "ς", True, True),
        ("^.$", "\r", False, True),
        ("^.$", "\n", False, False),
        ("a$", "a\n", True, True),
        ("a$", "a\r\n", True, False),
        ("a$", "a\u2028", True, False),
        ("a$", "a\n\n", False, False),
        ("a\r$", "a\r\n", False, True),
        ("^$\n", "\n", True, True),
        ("^$", "\r", True, False),
    ):
        assert (found(pattern, text, ICU), found(pattern, text, PCRE)) == (icu, pcre), pattern
    assert not found("k", "K", EXACT)


@pytest.mark.parametrize("seed", range(2))
def test_where_case_counts_it_is_pythons_re(seed: int) -> None:
    """An answer of a third engine, without a server: only \\s and [:name:] are others there."""
    rng = random.Random(seed)
    made = Patterns(rng)
    words = random_words(rng, 80)
    taken = 0
    for _ in range(500):
        pattern = made.pattern()
        if "[:" in pattern or "\\s" in pattern.lower():
            continue
        try:
            mine = ours(pattern, words, EXACT)
        except ExpressionNotSupported:
            continue
        taken += 1
        rule = re.compile(pattern)
        assert mine == [rule.search(word) is not None for word in words], pattern
    assert taken > 250


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "^(a*)*b$", "(a|aa)+$", "a*a*a*a*a*b"])
def test_a_catastrophic_pattern_reads_its_text_once(pattern: str) -> None:
    part = parse(pattern, EXACT, 0)
    assert len(automaton.build(part).table) < 64
    assert not found(pattern, "a" * 100_000 + "!", EXACT)


_SALAD = "aabsS1()()[]{}|*+?.^$\\-,:&=!<>PQEx23é\nß"


@pytest.mark.parametrize("seed", range(3))
def test_whatever_pattern_comes_it_is_refused_or_of_bounded_size(seed: int) -> None:
    rng = random.Random(seed)
    made = Patterns(rng)
    taken = 0
    for _ in range(700):
        pattern = "".join(rng.choice(_SALAD) for _ in range(rng.randint(1, 40)))
        if rng.random() < 0.5:
            pattern = made.choice(6) + pattern[:3]
        dialect = rng.choice((ICU, PCRE, EXACT))
        try:
            built = automaton.build(parse(pattern, dialect, 0))
        except (ExpressionNotSupported, automaton.TooLarge):
            continue
        taken += 1
        assert len(built.table) // built.width <= automaton.MAX_STATES
        assert len(built.table) <= automaton.MAX_ENTRIES + built.width
    assert taken > 100


@pytest.mark.parametrize(
    "pattern",
    [".*" * 200 + "a", "(a?){2000}", "(a?b?){900}", "(.{0,40}x){40}", "[a-z]{1,60}[0-9]{60}",
     "((a|b|c)?){500}d", "(" + "|".join(chr(0x4E00 + i) * 3 for i in range(900)) + ")*x"],
)  # fmt: skip
def test_what_is_large_is_bounded_by_steps(pattern: str) -> None:
    """Steps are what time is made of; a limit is met before it is felt."""
    net = automaton._Net()
    try:
        net.part(parse(pattern, EXACT, 0), net.node(), net.node())
        lows, classes, members = automaton._classes(list(net.sets))
        subsets = automaton._Subsets(net, 0, 1, members)
        subsets.build(lows, classes)
    except automaton.TooLarge:
        return
    assert subsets.steps <= automaton.MAX_STEPS
