"""Expressions mean what they mean on the server, and the oracle would see it if they did not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cdc.kernels.collations.trie import NO_CONTRACTIONS
from filter.expr import collations, compare
from tests.filter_expr import oracle, rows
from tests.filter_expr.found import FOUND, ROWS
from tests.seeds import seed

# On each server; the soak takes a million.
PAIRS = 20_000
OTHERS = ("mariadb-10.4", "mariadb-10.11", "mysql-5.6", "mysql-5.7", "mysql-9.7")


@pytest.mark.parametrize("name", ["mariadb-11.4", "mariadb-11.8", "mysql-8.0"])
def test_our_outcomes_are_the_servers(database: Any, name: str, schema_name: str) -> None:
    result = oracle.run(database(name), schema_name, PAIRS, seed())
    assert result.differences == []
    assert result.refused_share <= oracle.REFUSED, result.summary()
    assert result.wrongly_taken == []
    assert result.pairs >= PAIRS
    # Each outcome was seen, or nothing is shown about it; errors are too rare to be in each draw.
    assert min(result.outcomes[code] for code in (-1, 0, 1)) > 0


def test_another_server_in_each_run(database: Any, schema_name: str) -> None:
    name = OTHERS[seed() % len(OTHERS)]
    result = oracle.run(database(name), schema_name, PAIRS, seed())
    assert result.differences == []
    assert result.wrongly_taken == []
    # The oldest read a half of the language otherwise, which is refused there.
    assert result.refused_share <= 0.6, result.summary()


@pytest.mark.parametrize("name", ["mariadb-11.4", "mariadb-11.8", "mysql-8.0"])
def test_every_collation_orders_words_as_the_server(
    database: Any, name: str, schema_name: str
) -> None:
    result = oracle.collate(database(name), schema_name, seed(), size=70)
    assert result.differences == []
    assert all("has characters that" in why for why in result.refused), result.refused
    assert result.wrongly_taken == []
    assert result.pairs > 100_000


@pytest.mark.parametrize("name", sorted({s for on in FOUND.values() for s in on}))
def test_what_once_differed_does_so_no_longer(database: Any, name: str, schema_name: str) -> None:
    expressions = [e for e, on in FOUND.items() if name in on]
    result = oracle.compare(database(name), schema_name, ROWS, expressions)
    assert result.differences == []
    assert result.wrongly_taken == []
    assert (result.expressions, result.refused) == (len(expressions), {})
    assert min(result.outcomes[code] for code in (-1, 0, 1, 2)) > 0


def test_null_taken_for_false_is_seen(
    mariadb: Any, schema_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        compare, "_state", lambda a, b: np.zeros(max(a.state.size, b.state.size), np.uint8)
    )
    assert oracle.run(mariadb, schema_name, 2000, seed=11).differences


def test_a_dropped_collation_is_seen(
    mariadb: Any, schema_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = collations.collation.__wrapped__

    def dropped(charset: str, name: str) -> collations.Collation:
        return plain(charset, "utf8mb4_bin" if name == "utf8mb4_unicode_ci" else name)

    monkeypatch.setattr("filter.expr.strings.collation", dropped)
    assert oracle.collate(mariadb, schema_name, seed=5, size=70).differences


def test_a_lost_pad_is_seen(
    mariadb: Any, schema_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = collations.collation.__wrapped__

    def unpadded(charset: str, name: str) -> collations.Collation:
        found = plain(charset, name)
        return replace(found, pad=-1)

    monkeypatch.setattr("filter.expr.strings.collation", unpadded)
    assert oracle.collate(mariadb, schema_name, seed=5, size=70).differences


@pytest.mark.parametrize(
    ("lost", "seen"),
    [
        ({}, False),
        ({"contractions": NO_CONTRACTIONS}, True),
        ({"table": np.zeros(0x1100, np.uint8)}, True),
    ],
)
def test_lost_contractions_and_pages_are_seen(
    mariadb: Any,
    schema_name: str,
    monkeypatch: pytest.MonkeyPatch,
    lost: dict[str, Any],
    seen: bool,
) -> None:
    plain = collations.collation

    def without(charset: str, name: str) -> collations.Collation:
        found = plain(charset, name)
        return replace(found, **lost) if "uca1400" in name else found

    monkeypatch.setattr("filter.expr.strings.collation", without)
    monkeypatch.setattr(rows, "WORDS", rows.TOGETHER)
    monkeypatch.setattr(rows, "texts", lambda *_: rows.UCA_TEXTS)
    result = oracle.collate(mariadb, schema_name, seed=5, size=2 * len(rows.TOGETHER))
    assert bool(result.differences) == seen
    assert result.wrongly_taken == []


def test_mariadb_has_its_own_collations_under_names_of_mysql(
    mariadb: Any, schema_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {f"s{n}": ("varchar(40)", "utf8mb4", f"utf8mb4_0900_{n}") for n in ("ai_ci", "bin")}
    monkeypatch.setattr(rows, "texts", lambda *_: known)
    result = oracle.collate(mariadb, schema_name, seed=5, size=70)
    assert result.differences == []
    assert result.wrongly_taken == []
