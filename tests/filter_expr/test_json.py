"""Functions of JSON mean what they mean on the server, or are refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from cdc.kernels import expr_json
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from filter.expr import jsoncolumns, jsontexts
from filter.expr.errors import ExpressionFailed, ExpressionNotSupported, ExpressionParseFailed
from filter.expr.rowfilter import Condition
from filter.expr.values import NULL, Vector
from tests.filter_expr import hostile_json, oracle, rows
from tests.filter_expr.documents import NUMBERS, SCALARS, TYPED, WORDS
from tests.filter_expr.literals import quoted
from tests.seeds import one_run_in, seed

MYSQL = Session(version=(8, 0, 33))
MARIADB = Session(mariadb=True, version=(11, 4, 5))
PAIRS = 20_000


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-8.0"])
def test_documents_give_what_the_server_gives(database: Any, name: str, schema_name: str) -> None:
    result = oracle.run(database(name), schema_name, PAIRS, seed(), json=True)
    assert result.differences == []
    assert result.refused_share <= oracle.REFUSED, result.summary()
    assert result.wrongly_taken == []
    assert result.pairs >= PAIRS
    assert min(result.outcomes[code] for code in (-1, 0, 1)) > 0


def test_every_scalar_compares_with_every_literal_as_on_mysql(
    database: Any, schema_name: str
) -> None:
    typed = [v for v in TYPED if len(v) > 3 and not v.isalnum()]
    documents = [f"json_extract(json_array({v}), '$[0]')" for v in typed]
    documents += [f"cast({quoted(v)} as json)" for v in SCALARS]
    result = oracle.scalars(
        database("mysql-8.0"), schema_name, documents,
        [*NUMBERS, *map(quoted, WORDS), "TRUE", "FALSE"],
    )  # fmt: skip
    assert result.differences == []
    assert result.wrongly_taken == []
    assert sum(result.refused.values()) == 0
    assert result.pairs > 20_000


def test_json_null_taken_for_sql_null_is_seen(
    database: Any, schema_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = jsoncolumns.unquoted

    def without_null(parts: Any, at: int) -> Any:
        value = plain(parts, at)
        run = value._run

        def lost(frame: Any) -> Vector:
            found, v = run(frame), parts.of(frame).data
            codes = np.empty(len(v.kinds), np.int64)
            expr_json.types_of(v.buf, v.kinds, v.starts, codes)
            none = (codes == expr_json.T_NULL).view(np.uint8) * np.uint8(NULL)
            return Vector(found.data, found.state | none)

        value._run = lost
        return value

    monkeypatch.setattr(jsoncolumns, "unquoted", without_null)
    server = database("mysql-8.0")
    assert oracle.run(server, schema_name, PAIRS, seed=12, json=True).differences


def test_keys_compared_without_their_escapes_are_seen(
    mariadb: Any, schema_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = jsontexts._find

    def exchanged(text: Any, path: Any, mode: int, plain: bool) -> Any:
        return find(text, path, mode, not plain)

    monkeypatch.setattr(jsontexts, "_find", exchanged)
    assert oracle.run(mariadb, schema_name, 10 * PAIRS, seed=12, json=True).differences


def test_mutated_documents_end_in_a_value_or_a_code() -> None:
    errors = hostile_json.run(5_000)
    assert errors[0] > 1_000
    assert len(errors) > 4


@one_run_in(3)
def test_the_same_with_bounds_checks() -> None:
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1"}
    command = [sys.executable, "-m", "tests.filter_expr.hostile_json", "3000"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


TAKEN = [
    "JSON_VALUE(js, '$.a') = 'x'", "JSON_TYPE(js) = 'OBJECT'", "JSON_LENGTH(js, '$.a') > 2",
    "JSON_TYPE(JSON_EXTRACT(js, '$.a[0]')) IS NULL", "JSON_EXTRACT(js, '$.\"a b\"') IS NOT NULL",
    "JSON_VALID(js)", "JSON_CONTAINS_PATH(js, 'all', '$.a', '$.b[1]')",
    "LEFT(JSON_VALUE(js, '$.a'), 2) LIKE 'a%'", "JSON_VALUE(js, '$.n') > 5",
]  # fmt: skip
ON_MYSQL = [
    "js->>'$.a' = 'x'", "js -> '$.a' = 5", "`t`.`js`->>'$[last].a' IN ('a', 'b')", "5 < js->'$.a'",
    "JSON_UNQUOTE(JSON_EXTRACT(js, '$')) IS NULL", "js->'$[last-1]' <=> TRUE", "js->\"$.a\" = -1.5",
]  # fmt: skip
ON_MARIADB = ["JSON_EXISTS(js, '$.a')", "JSON_VALUE(jt, '$.a') = 'x'"]


def _table(session: Session) -> Any:
    return parse_create_table(rows.create("t", not session.mariadb), session, schema="s")


@pytest.mark.parametrize("session", [MYSQL, MARIADB], ids=["mysql", "mariadb"])
def test_what_is_evaluated(session: Session) -> None:
    table = _table(session)
    for text in TAKEN + (ON_MARIADB if session.mariadb else ON_MYSQL):
        Condition(text, table, session, None)
    for text in ON_MYSQL if session.mariadb else ON_MARIADB:
        with pytest.raises(ExpressionNotSupported) as caught:
            Condition(text, table, session, None)
        assert caught.value.hint


@pytest.mark.parametrize("session", [MYSQL, MARIADB], ids=["mysql", "mariadb"])
@pytest.mark.parametrize(
    "text",
    [
        "JSON_VALUE(js, 'a')", "JSON_VALUE(js, '$a')", "JSON_VALUE(js, '$.')", "JSON_VALUE(js, '')",
        "JSON_VALUE(js, '$.a b')", "JSON_VALUE(js, '$.*')", "JSON_VALUE(js, '$[*]')",
        "JSON_VALUE(js, '$**.a')", "JSON_VALUE(js, '$[1 to 2]')", "JSON_VALUE(js, '$[-1]')",
        "JSON_VALUE(js, '$[01]')", "JSON_VALUE(js, '$.\"a')", "JSON_VALUE(js, '$.\"\\\\\"\"')",
        "JSON_VALUE(js, ' $')", "JSON_VALUE(js, '$ .a')", "JSON_VALUE(js, '$.é')",
        "JSON_VALUE(js, sb)", "JSON_VALUE(js, 5)", "JSON_VALUE(js)", "JSON_VALUE('{}', '$')",
        "JSON_VALUE(i8, '$')", "JSON_VALUE(en, '$')", "JSON_VALUE(sl, '$')", "JSON_VALUE(vb, '$')",
        "JSON_EXTRACT(js, '$.a', '$.b') IS NULL", "JSON_EXTRACT(js, '$.a')",
        "JSON_EXTRACT(js, '$.a') = sb", "JSON_EXTRACT(js, '$.a') = JSON_EXTRACT(js, '$.b')",
        "JSON_EXTRACT(js, '$.a') = NULL", "JSON_EXTRACT(js, '$.a') IN (1)",
        "JSON_EXTRACT(js, '$.a') BETWEEN 1 AND 2", "JSON_EXTRACT(js, '$.a') + 1 = 2",
        "JSON_EXTRACT(js, '$.a') = x'41'", "IFNULL(JSON_EXTRACT(js, '$.a'), 1)",
        "JSON_EXTRACT(js, '$.a') LIKE 'a'", "JSON_CONTAINS_PATH(js, 'two', '$')",
        "JSON_CONTAINS_PATH(js, 'one')", "JSON_CONTAINS(js, '1')", "JSON_KEYS(js) = 'a'",
        "JSON_SEARCH(js, 'one', 'a')", "JSON_UNQUOTE(sb) = 'a'", "JSON_DEPTH(js) = 1",
        "JSON_VALUE(js, '$" + ".a" * 33 + "')", "JSON_VALUE(js, '$.\ud800')",
    ],
)  # fmt: skip
def test_what_is_refused_by_name(text: str, session: Session) -> None:
    with pytest.raises(ExpressionNotSupported) as caught:
        Condition(text, _table(session), session, None)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "version", "mariadb"),
    [
        ("JSON_TYPE(js) = 'NULL'", (5, 7, 44), False),
        ("js->'$.a' IS NULL", (5, 7, 44), False),
        ("js = '{}'", (8, 0, 33), False),
        ("js IN ('{}')", (8, 0, 33), False),
        ("js", (8, 0, 33), False),
        ("JSON_VALUE(js, '$.a') = 'a'", (8, 0, 20), False),
        ("JSON_TYPE(js) = 'NULL'", (10, 4, 20), True),
        ("JSON_TYPE(js) = 'NULL'", (12, 0, 2), True),
        ("JSON_EXTRACT(js, '$.a') IS NULL", (10, 6, 21), True),
        ("JSON_UNQUOTE(JSON_EXTRACT(js, '$.a')) = 'a'", (11, 4, 5), True),
        ("JSON_UNQUOTE(JSON_EXTRACT(js, '$.a')) = 'a'", (10, 11, 11), True),
        ("UPPER(JSON_TYPE(js)) = 'a'", (11, 4, 5), True),
        ("IF(i8, JSON_TYPE(js), 'a') = 'a'", (11, 4, 5), True),
        ("JSON_EXTRACT(js, '$.a') = 'a'", (11, 4, 5), True),
        ("JSON_VALUE(js, '$[last]') = 'a'", (11, 4, 5), True),
    ],
)
def test_what_servers_do_not_agree_on_is_refused(
    text: str, version: tuple[int, int, int], mariadb: bool
) -> None:
    session = Session(version=version, mariadb=mariadb)
    with pytest.raises(ExpressionNotSupported) as caught:
        Condition(text, _table(session), session, None)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["js->", "js->5", "js->>'$' '", "js->sb", "5->'$'", "(js)->'$'"])
def test_arrows_stand_between_a_column_and_a_path(text: str) -> None:
    with pytest.raises(ExpressionParseFailed):
        Condition(text, _table(MYSQL), MYSQL, None)


def test_text_that_is_no_json_fails_where_functions_stop_early(
    mariadb: Any, schema_name: str
) -> None:
    found = oracle.Oracle(mariadb, schema_name, rng=None)  # type: ignore[arg-type]
    try:
        texts = ('{"a": 1', '{"a": 1}', "", '{"a": -}', '{"a": 1, "\tb": 2}')
        found.fill_values("jt longtext character set utf8mb4", [quoted(text) for text in texts])
        order = np.arange(5)
        for text, states in (
            ("JSON_VALUE(jt, '$.a') = '1'", [2, 1, 2, 2, 2]),
            ("JSON_VALUE(jt, '$.b') IS NULL", [2, 1, 2, 1, 2]),
            ("JSON_VALID(jt) AND JSON_VALUE(jt, '$.a') = '1'", [0, 1, 0, 2, 2]),
            ("JSON_VALID(jt)", [0, 1, 0, 1, 1]),
            ("JSON_TYPE(jt) IS NULL", [1, 0, 1, 0, 2]),
            ("JSON_TYPE(JSON_EXTRACT(jt, '$.a')) IS NULL", [1, 0, 1, 2, 2]),
            ("JSON_EXTRACT(jt, '$.a') IS NULL", [1, 0, 1, 2, 2]),
            ("JSON_LENGTH(jt) = 1", [2, 1, 2, 1, 2]),
        ):
            condition = Condition(text, found.table, found.session, None)
            assert condition.states(found.located, order, 1).tolist() == states, text
        condition = Condition("JSON_EXISTS(jt, '$')", found.table, found.session, None)
        with pytest.raises(ExpressionFailed, match="no JSON"):
            condition.true(found.located, order, 1)
    finally:
        found.close()
