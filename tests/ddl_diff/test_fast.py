"""The fast part: hand-written corpora and some random DDL, equal on a server of each family."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from cdc.schema import versions
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.statement import DdlStatement
from tests import servers
from tests.ddl_diff import run as run_module
from tests.ddl_diff.run import Result, Run
from tests.ddl_diff.split import by_line, statements
from tests.seeds import drawn, seed

_CORPUS = Path(__file__).parent / "corpus"


def _run(name: str, random: int, drawn: int) -> Result:
    try:
        with servers.database(name) as db:
            db.execute("CREATE DATABASE ddl_diff")
            run = Run(db)
            run.one("USE ddl_diff")
            for part in ("common", db.kind):
                for file in sorted((_CORPUS / part).glob("*.sql")):
                    run.all(statements(file.read_text(), run.backslash), f"{part}/{file.stem}")
            run.generated(random, drawn)
            run.check_all()
            run.close()
            return run.result
    except servers.Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.real
# A thousand statements that each make files: slow where the disk is shared.
@pytest.mark.parametrize(
    ("name", "random"), drawn([("mariadb-11.4", 120), ("mysql-8.0", 120)], names=2)
)
def test_every_accepted_statement_leaves_our_tables_equal_to_the_servers(
    name: str, random: int
) -> None:
    result = _run(name, random, seed())
    assert result.different == []
    assert result.unsaid == []
    assert len(result.refused) * 2000 <= result.accepted, result.refused
    # A MERGE table of what is no MyISAM, copies of it, and what refers to a name with a backtick.
    assert len(result.unshown) <= 10, result.unshown
    assert result.equal >= 850


def _forgetful(catalog: Catalog, statement: DdlStatement) -> Catalog:
    return catalog if "FIRST" in statement.sql else apply(catalog, statement)


def _without_defaults(catalog: Catalog, statement: DdlStatement) -> Catalog:
    sql = statement.sql.replace("'2020-1-2'", "'2020-1-3'")
    return apply(catalog, read_ddl(sql, statement.session))


def _harmless(statement: str, session: Session) -> DdlStatement:
    return DdlStatement("analyze") if "FIRST" in statement else read_ddl(statement, session)


@pytest.mark.real
@pytest.mark.parametrize(
    ("where", "name", "broken", "at"),
    [
        (versions, "apply", _forgetful, "#3"),
        (versions, "apply", _without_defaults, "#4"),
        (run_module, "read_ddl", _harmless, "#3"),
    ],
)
def test_a_broken_rule_is_seen(
    monkeypatch: pytest.MonkeyPatch,
    mariadb: servers.Database,
    where: ModuleType,
    name: str,
    broken: Callable[..., object],
    at: str,
) -> None:
    monkeypatch.setattr(where, name, broken)
    run = Run(mariadb)
    run.all(
        [
            "CREATE OR REPLACE DATABASE broken_rule",
            "CREATE TABLE broken_rule.t (a int)",
            "ALTER TABLE broken_rule.t ADD b int FIRST",
            "ALTER TABLE broken_rule.t ADD c date DEFAULT '2020-1-2'",
            "DROP DATABASE broken_rule",
        ]
    )
    run.close()
    assert [d["at"] for d in run.result.different] == [at]
    assert run.result.equal == 4 - run.result.unchanged


@pytest.mark.real
def test_a_default_that_the_server_only_shows_is_none(mariadb: servers.Database) -> None:
    """A compressed column has an empty one where it is made, and none behind DROP DEFAULT."""
    run = Run(mariadb)
    run.all(
        [
            "CREATE OR REPLACE DATABASE shown_default",
            "CREATE TABLE shown_default.t (a text COMPRESSED NOT NULL, b int DEFAULT 1)",
            "ALTER TABLE shown_default.t ALTER a DROP DEFAULT",
            "DROP DATABASE shown_default",
        ]
    )
    run.close()
    assert run.result.different == []
    assert run.result.accepted == 4


def test_delimiters_comments_and_quotes_split_as_the_clients_do() -> None:
    text = (
        "-- first; line\nSELECT ';' ; # x;\n/* a; b */ SELECT `;`;\nDELIMITER //\n"
        'CREATE PROCEDURE p() BEGIN SELECT 1; END//\nDELIMITER ;\nSELECT "\\";"; \n--\nSELECT 3'
    )
    found = [" ".join(s.split()) for s in statements(text)]
    assert [s.split("*/ ")[-1].split("x; ")[-1] for s in found] == [
        "SELECT ';'",
        "SELECT `;`",
        "CREATE PROCEDURE p() BEGIN SELECT 1; END",
        'SELECT "\\";"',
        "-- SELECT 3",
    ] or found[-1].endswith("SELECT 3")
    assert by_line("a;\n\n# c\n  b\n") == ["a", "b"]
