"""Contractions: the longest one counts, where all of its characters stand together."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from cdc.kernels import collations as packed
from cdc.kernels.collations import CODE_POINTS, NAMES, Packed, expand, pack, weights
from cdc.kernels.collations.trie import NO_CONTRACTIONS, trie
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from filter.expr.collations import Collation, collation, own_name
from filter.expr.errors import ExpressionNotSupported
from filter.expr.rowfilter import Condition
from filter.expr.strings import compare_texts
from filter.expr.values import Text, Vector, no_state
from tests.filter_expr.find_contractions import Found, with_contractions

MARIADB = Session(mariadb=True, version=(11, 8, 0))
TABLE = parse_create_table(
    "create table t (a varchar(9) character set utf8mb4 collate utf8mb4_uca1400_ai_ci,"
    " b varchar(9) character set utf8mb3 collate utf8mb3_uca1400_nopad_ai_ci,"
    " c varchar(9) character set utf8mb4 collate utf8mb4_uca1400_as_cs)",
    MARIADB,
    schema="s",
)


def _rule(found: Found, pad: int) -> Collation:
    # Each character weighs its code point.
    lengths = np.zeros(CODE_POINTS, np.uint8)
    lengths[:256] = 1
    plain = Packed(lengths, np.arange(256, dtype=np.uint16), np.zeros((0, 3), np.int32))
    known = expand(with_contractions(plain, found))
    return Collation("made", 3, pad, np.empty(0, np.uint8), known.starts, known.values, trie(known))


def _order(rule: Collation, a: str, b: str) -> int:
    sides = [
        Vector(
            Text(
                np.frombuffer(text.encode() + bytes(16), np.uint8),
                np.zeros(1, np.int64),
                np.array([len(text.encode())], np.int64),
            ),
            no_state(),
        )
        for text in (a, b)
    ]
    return int(compare_texts(*sides, rule)[0])


def _points(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


def test_the_longest_contraction_is_taken_and_one_cut_short_is_none() -> None:
    # "xyz" begins with "xy", which is none itself, and "yz" begins in its midst.
    rule = _rule({_points("ab"): [65], _points("xyz"): [66], _points("yw"): [67]}, pad=-1)
    for text, same in {
        "ab": "A", "aab": "aA", "abab": "AA", "aba": "Aa", "xyz": "B", "xxyz": "xB", "xyw": "xC",
        "a": "a", "b": "b", "xy": "xy", "xyxyz": "xyB",
    }.items():  # fmt: skip
        assert _order(rule, text, same) == 0, text
    assert _order(rule, "ab", "a") == -1
    assert _order(rule, "a", "ab") == 1
    assert _order(rule, "ab", "aab") == -1


def test_a_contraction_may_weigh_nothing_and_spaces_pad() -> None:
    found: Found = {_points("ab"): [], _points("cd"): [32, 32]}
    assert _order(_rule(found, pad=32), "xabcd", "x") == 0
    assert _order(_rule(found, pad=-1), "xabcd", "x") == 1
    assert _order(_rule(found, pad=-1), "xab", "x") == 0


def test_only_uca1400_has_contractions() -> None:
    for name in NAMES:
        assert (trie(weights(name)) is NO_CONTRACTIONS) == ("uca1400" not in name)


def test_packing_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    data = lzma.decompress(Path(packed.__file__).with_name("weights.bin").read_bytes())
    parts = []
    for name in NAMES:
        found = weights(name)
        sizes = np.diff(found.starts).astype(np.uint8)
        parts.append(Packed(sizes, found.values, found.sequences))
    again = pack(parts, list(data[-256:]))
    monkeypatch.setattr(packed, "_packed", lambda: again)
    for name in NAMES:
        for before, after in zip(weights(name), weights.__wrapped__(name), strict=True):
            assert np.array_equal(before, after)


@pytest.mark.parametrize(
    "text",
    [
        "a = 'x'", "a COLLATE uca1400_nopad_ai_ci = 'x'", "b COLLATE utf8mb3_uca1400_ai_ci > 'x'",
        "b COLLATE uca1400_ai_ci = 'x'", "'a' = 'A'", "a COLLATE utf8mb4_bin = 'x'",
    ],
)  # fmt: skip
def test_uca1400_is_evaluated_by_all_its_names(text: str) -> None:
    Condition(text, TABLE, MARIADB, None)


@pytest.mark.parametrize(
    "text",
    [
        "a COLLATE utf8mb3_uca1400_ai_ci = 'x'", "a COLLATE uca1400_as_ci = 'x'", "c = 'x'",
        "b COLLATE utf8mb4_uca1400_ai_ci = 'x'", "a COLLATE uca1400_swedish_ai_ci = 'x'", "a = b",
        "a = a COLLATE utf8mb4_0900_ai_ci", "x'41' COLLATE uca1400_ai_ci = 'x'",
    ],
)  # fmt: skip
def test_other_kinds_of_it_are_refused(text: str) -> None:
    with pytest.raises(ExpressionNotSupported):
        Condition(text, TABLE, MARIADB, None)


@pytest.mark.parametrize(
    "session", [Session(version=(8, 4, 0)), Session(mariadb=True, version=(10, 6, 0))]
)
@pytest.mark.parametrize("name", ["utf8mb4_uca1400_ai_ci", "uca1400_ai_ci"])
def test_servers_without_it_refuse_it(session: Session, name: str) -> None:
    table = parse_create_table(
        "create table t (a varchar(9) character set utf8mb4 collate utf8mb4_general_ci)",
        session,
        schema="s",
    )
    with pytest.raises(ExpressionNotSupported):
        Condition(f"a COLLATE {name} = 'x'", table, session, None)


def test_names_of_mysql_are_mariadbs_own_collations_there() -> None:
    assert own_name("utf8mb4_0900_ai_ci", MARIADB) == "utf8mb4_uca1400_nopad_ai_ci"
    assert own_name("utf8mb4_0900_ai_ci", Session()) == "utf8mb4_0900_ai_ci"
    assert collation("utf8mb4", own_name("utf8mb4_0900_bin", MARIADB)).pad == 32
