"""Letter cases, ends of lines and whole patterns are those of the real servers."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from cdc.kernels.collations.folds import folds
from filter.expr import patterns
from filter.expr.regexp import syntax
from filter.expr.regexp.points import byte_points
from tests.filter_expr import regexp_oracle
from tests.filter_expr.regexp_oracle import Asked
from tests.seeds import seed

SERVERS = ["mariadb-11.4", "mysql-8.0"]


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    """Automata are kept, which would hide what a test changes."""
    patterns._automaton.cache_clear()
    yield
    patterns._automaton.cache_clear()


@pytest.mark.parametrize("name", SERVERS)
def test_letters_have_the_cases_of_the_server(database: Any, name: str, schema_name: str) -> None:
    known = folds()
    letters = {*known.first, *known.unsettled, *known.full, *range(128)}
    asked = Asked(database(name), schema_name, map(chr, sorted(letters)), "utf8mb4")
    # Eight classes at once, from far apart, each by its first or another of its letters.
    picked = [members[-(i % 2)] for i, members in enumerate(known.members.values())]
    step = len(picked) // 8 + 1
    for i in range(step):
        assert asked.difference("|".join(f"[{chr(p)}]" for p in picked[i::step]), True) == ""
    # None has a case that is not among them, and ASCII has none but these.
    everything = "".join(chr(p) for p in sorted(known.first))
    assert asked.difference(f"[^{everything}]", True) == ""
    assert asked.theirs("[A-Z]", True) == asked.theirs("[a-z\u017f\u212a]", True)
    assert asked.refused + asked.gave_up == []


@pytest.mark.parametrize("name", SERVERS)
def test_letters_that_grow_are_found_as_the_server_finds_them(
    database: Any, name: str, schema_name: str
) -> None:
    full = {chr(p): "".join(map(chr, parts)) for p, parts in folds().full.items()}
    words = [*full, *full.values(), *(w.upper() for w in full), *(w + "x" for w in full)]
    asked = Asked(database(name), schema_name, words, "utf8mb4")
    for letter, parts in full.items():
        for pattern in (letter, parts, f"^{parts}$", f"[{letter}]x", f"{letter}+", f"x?{parts}x"):
            assert asked.difference(pattern, True) == ""
    # Three letters, that versions of Unicode fold otherwise, are refused in each pattern.
    assert len(asked.refused) <= 3 * 6
    assert asked.gave_up == []


@pytest.mark.parametrize("name", SERVERS)
def test_ends_of_lines_are_the_servers(database: Any, name: str, schema_name: str) -> None:
    ends = ["", "\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "a"]
    words = ["".join(w) for w in product(ends, ends, ends)]
    for charset in ("utf8mb4", "latin1"):
        asked = Asked(database(name), schema_name, words, charset)
        for pattern in (
            "a$", "^$", "$", "^", "a.", "^.$", "^..$", "$^", "$a", "^$\n", "a$\n", "a$\r\n",
            "\r$", "\r$\n", "$\r\n$", "(^|a)$", "(a|$)+\n", "^\\s$", "^\\S", "[^a]$", "\\n$", "\\r",
            "^a?.?$", "(?:$\n)+", "($|\n)a", "^(\n|$)*$",
        ):  # fmt: skip
            assert asked.difference(pattern, False) == ""
        assert asked.refused + asked.gave_up == []


@pytest.mark.parametrize("name", SERVERS)
def test_punctuation_and_classes_are_the_servers(
    database: Any, name: str, schema_name: str
) -> None:
    server = database(name)
    points = [*range(0x3100), 0xFEFF, 0xFF10, 0x10FFFF]
    wide = Asked(server, schema_name, map(chr, points), "utf8mb4")
    for pattern in ("^.$", "\\s", "\\S", "[[:blank:]]", "[^[:space:]]", "[[:cntrl:]a]", "[^\\S]"):
        assert wide.difference(pattern, True) == ""
    ascii_ = Asked(server, schema_name, map(chr, range(128)), "utf8mb4")
    rng = random.Random(4)
    pieces = [*string.punctuation, " ", *"abz&&&---^:.=", "a-c", "!-/", "[:space:]", "\\s"]
    escaped = [f"\\{c}" for c in string.punctuation + " "]
    made = [*escaped, *(f"[{c}-~]" for c in escaped), *(f"[^{c}]" for c in escaped)]
    for _ in range(700):
        some = (rng.choice(rng.choice((pieces, pieces, escaped))) for _ in range(rng.randint(1, 4)))
        made.append(f"[{rng.choice(('', '', '^'))}{''.join(some)}]{rng.choice(('', '', ':]'))}")
    for pattern in made:
        assert ascii_.difference(pattern, True) == ""
    # Brackets that are put together at random are often none; the others are compared.
    assert len(ascii_.refused) <= 0.4 * len(made)
    assert wide.refused + wide.gave_up + ascii_.gave_up == []
    names = "alpha digit alnum upper lower punct xdigit space blank cntrl word".split()
    for charset in ("latin1", *(["binary"] if name.startswith("mariadb") else [])):
        held = Asked(server, schema_name, map(chr, byte_points(charset)), charset)
        for pattern in ("\\d", "\\w", "\\s", "[^\\W]", "é", *(f"[[:{n}:]]" for n in names)):
            for ignore_case in (False, charset != "binary"):
                assert held.difference(pattern, ignore_case) == ""
        assert set(held.refused) <= {"[[:upper:]]", "[[:lower:]]"}
        assert held.gave_up == []


@pytest.mark.parametrize("name", SERVERS)
def test_random_patterns_are_answered_as_by_the_server(
    database: Any, name: str, schema_name: str
) -> None:
    for charset, count in (("utf8mb4", 300), ("latin1", 300)):
        found = regexp_oracle.run(database(name), schema_name, count, seed(), charset)
        assert found.differences == []
        assert found.unseen <= regexp_oracle.UNSEEN, found.summary()


def test_a_dot_that_matches_newlines_is_seen(
    mariadb: Any, schema_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syntax, "line_ends", lambda dialect: ())
    assert regexp_oracle.run(mariadb, schema_name, 100, seed=5).differences


def test_a_dropped_case_is_seen(
    mariadb: Any, schema_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syntax, "in_any_case", lambda ranges: ranges)
    assert regexp_oracle.run(mariadb, schema_name, 100, seed=5).differences


def test_letters_that_grow_unseen_are_seen(
    database: Any, schema_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syntax, "growing", dict)
    rng = random.Random(1)
    asked = Asked(
        database("mysql-8.0"), schema_name, regexp_oracle.random_words(rng, 200), "utf8mb4"
    )
    assert asked.difference("ss", True)
