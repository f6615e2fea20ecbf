"""Statements in the target's words: names, lists, comments, families."""

from __future__ import annotations

import pytest

from cdc.base.errors import TidegateError
from cdc.binlog.query import StatusVariables
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog, Database
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.shown import shown
from sink.mysql.ddl.errors import DDLNotTranslatable
from sink.mysql.ddl.rewrite import Rewritten, rewrite
from sink.mysql.ddl.server import TargetServer
from sink.schema_change import SchemaChange, TableName

MARIADB = Session(mariadb=True, version=(11, 4, 5), default_schema="s")
MYSQL = Session(mariadb=False, version=(8, 0, 41), default_schema="s")
_COLLATIONS = (
    "utf8mb4_general_ci utf8mb4_bin utf8mb4_unicode_520_ci latin1_swedish_ci latin1_bin"
    " ascii_general_ci"
)
TO_MARIADB = TargetServer(
    True,
    (11, 4, 5),
    {c: c for c in f"{_COLLATIONS} utf8mb4_uca1400_ai_ci utf8mb4_uca1400_nopad_ai_ci".split()},
    frozenset(("innodb", "aria", "myisam")),
)
TO_MYSQL = TargetServer(
    False,
    (8, 0, 41),
    {c: c for c in f"{_COLLATIONS} utf8mb4_0900_ai_ci".split()},
    frozenset(("innodb", "myisam")),
)


def _catalog(session: Session, *statements: str) -> Catalog:
    made = Catalog().with_database(Database("s", "utf8mb4", "utf8mb4_general_ci"))
    made = made.with_database(Database("o", "latin1", "latin1_swedish_ci"))
    for statement in statements:
        made = apply(made, read_ddl(statement, session))
    return made


def _routed(schema: str, name: str) -> TableName:
    return f"{schema}_x", f"{name}_y" if name else ""


def _change(
    sql: str,
    session: Session,
    *before: str,
    replicated: tuple[str, ...] | None = None,
) -> SchemaChange:
    catalog = _catalog(session, *before)
    seen = read_ddl(sql, session)
    names = seen.tables if replicated is None else tuple(("s", name) for name in replicated)
    return SchemaChange(
        1,
        sql,
        seen.kind,
        seen.tables,
        seen.schemas,
        names,
        session,
        StatusVariables(),
        0,
        catalog,
        apply(catalog, seen),
    )


def _rewritten(sql: str, *before: str, **more: tuple[str, ...]) -> Rewritten:
    return rewrite(_change(sql, MYSQL, *before, **more), TO_MYSQL, _routed)


T = "CREATE TABLE t (a int PRIMARY KEY, b varchar(10), KEY k (b))"
U = "CREATE TABLE u (a int PRIMARY KEY, b varchar(10))"


@pytest.mark.parametrize(
    ("sql", "before", "expected"),
    [
        (
            "ALTER TABLE t ADD c int, ALGORITHM=INSTANT, LOCK = NONE",
            (T,),
            "ALTER TABLE `s_x`.`t_y` ADD c int",
        ),
        (
            "ALTER TABLE t ALGORITHM=COPY, LOCK=SHARED, ADD c int",
            (T,),
            "ALTER TABLE `s_x`.`t_y` ADD c int",
        ),
        (
            "alter table `t` algorithm copy, rename to o.n",
            (T,),
            "alter table `s_x`.`t_y`   rename to `o_x`.`n_y`",
        ),
        (
            "ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES u (a)",
            (T, U),
            "ALTER TABLE `s_x`.`t_y` ADD FOREIGN KEY (b) REFERENCES `s_x`.`u_y` (a)",
        ),
        (
            "ALTER TABLE t /* why */ COMMENT 't, u and s.t' /*!50100 , ADD c int */",
            (T,),
            "ALTER TABLE `s_x`.`t_y` COMMENT 't, u and s.t' , ADD c int",
        ),
        ("DROP INDEX k ON t", (T,), "DROP INDEX k ON `s_x`.`t_y`"),
        ("TRUNCATE t", (T,), "TRUNCATE TABLE `s_x`.`t_y`"),
        (
            "CREATE UNIQUE INDEX i ON t (b) ALGORITHM=INPLACE LOCK=NONE",
            (T,),
            "CREATE UNIQUE INDEX i ON `s_x`.`t_y` (b)",
        ),
        (
            "DROP INDEX k ON o.t",
            ("CREATE TABLE o.t (a int, KEY k (a))",),
            "DROP INDEX k ON `o_x`.`t_y`",
        ),
        (
            "CREATE TABLE v (a varchar(3)) DATA DIRECTORY='/x' CHARSET latin1 START TRANSACTION",
            (),
            "CREATE TABLE `s_x`.`v_y` (a varchar(3)) DEFAULT CHARACTER SET latin1"
            " COLLATE latin1_swedish_ci",
        ),
        (
            "CREATE TABLE v (a varchar(3) CHARACTER SET latin1 NOT NULL)",
            (),
            "CREATE TABLE `s_x`.`v_y` (a varchar(3) CHARACTER SET latin1 COLLATE latin1_swedish_ci"
            " NOT NULL) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        ),
        ("CREATE TABLE IF NOT EXISTS t (z int)", (T,), None),
        (
            "CREATE DATABASE n CHARSET latin1",
            (),
            "CREATE DATABASE `n_x` CHARACTER SET latin1 COLLATE latin1_swedish_ci",
        ),
        ("DROP DATABASE IF EXISTS o", (), "DROP DATABASE IF EXISTS `o_x`"),
    ],
)  # fmt: skip
def test_within_a_family(sql: str, before: tuple[str, ...], expected: str | None) -> None:
    found = _rewritten(sql, *before).statements
    assert [" ".join(s.split()) for s in found] == (
        [] if expected is None else [" ".join(expected.split())]
    )


def _short(pairs: tuple[tuple[TableName, TableName], ...]) -> str:
    return " ".join(old[1][0] + new[1][0] for old, new in pairs)


@pytest.mark.parametrize(
    ("sql", "replicated", "expected"),
    [
        ("RENAME TABLE t TO x, u TO t, x TO u", ("t", "u"), "tx ut xu"),
        ("RENAME TABLE t TO x, u TO y", ("t", "x"), "tx"),
        ("RENAME TABLE t TO x, x TO z, u TO y", ("z",), "tx xz"),
        ("RENAME TABLE t TO x, u TO y", (), ""),
    ],
)
def test_a_list_of_renames_keeps_what_is_replicated(
    sql: str, replicated: tuple[str, ...], expected: str
) -> None:
    assert _short(_rewritten(sql, T, U, replicated=replicated).renames) == expected


def test_an_alter_that_renames_is_about_both_names() -> None:
    for replicated in (("t",), ("n",), ("t", "n")):
        found = _rewritten("ALTER TABLE t RENAME TO n, ADD c int", T, replicated=replicated)
        assert [name for name, _ in found.tables] == [("s", "t"), ("s", "n")]
        assert found.statements
    found = _rewritten("ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES u (a)", T, U, replicated=())
    assert (found.tables, found.statements) == ((), ())
    found = _rewritten("ALTER TABLE t ADD p int, ADD FOREIGN KEY (p) REFERENCES t (a)", T)
    assert [name for name, _ in found.tables] == [("s", "t")]


def test_a_password_is_not_shown() -> None:
    sql = "CREATE TABLE f (a int) ENGINE=FEDERATED CONNECTION='mysql://u:secret@h/d/t' COMMENT 'c'"
    text = shown(sql, MYSQL)
    assert "secret" not in text
    assert "COMMENT 'c'" in text


def test_a_drop_keeps_what_is_replicated() -> None:
    found = _rewritten("DROP TABLE t, u", T, U, replicated=("u",))
    assert found.tables == ((("s", "u"), ("s_x", "u_y")),)


@pytest.mark.parametrize(
    ("sql", "before", "expected"),
    [
        (
            "CREATE OR REPLACE TABLE t (a uuid DEFAULT uuid(), b json, `c` text DEFAULT 'x')"
            " ENGINE=Aria TRANSACTIONAL=1 COLLATE utf8mb4_uca1400_ai_ci",
            (T,),
            "DROP TABLE IF EXISTS `s`.`t`;"
            "CREATE TABLE `s`.`t` (`a` char(36) CHARACTER SET ascii COLLATE ascii_general_ci"
            " DEFAULT (uuid()), `b` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,"
            " `c` text DEFAULT ('x')) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"
            " ENGINE=InnoDB",
        ),
        (
            "ALTER ONLINE TABLE IF EXISTS t WAIT 5 ADD COLUMN IF NOT EXISTS b int,"
            " DROP INDEX IF EXISTS k, DROP COLUMN IF EXISTS z, DROP COLUMN IF EXISTS y",
            (T,),
            "ALTER TABLE `s`.`t` DROP INDEX k",
        ),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS b int", (T,), ""),
        (
            "SET STATEMENT max_statement_time=1 FOR ALTER TABLE t FORCE",
            (T,),
            "ALTER TABLE `s`.`t` FORCE",
        ),
        (
            "CREATE INDEX x ON t (b) WAIT 3 COMMENT 'NOWAIT' LOCK=NONE",
            (T,),
            "CREATE INDEX x ON `s`.`t` (b) COMMENT 'NOWAIT'",
        ),
        ("DROP INDEX k ON t NOWAIT", (T,), "DROP INDEX k ON `s`.`t`"),
        (
            "CREATE OR REPLACE INDEX k ON t (a, b)",
            (T,),
            "ALTER TABLE `s`.`t` DROP INDEX `k`, ADD INDEX `k` (a, b)",
        ),
        (
            "ALTER TABLE t ADD e int AS (a + 1) PERSISTENT, ADD KEY x (a) IGNORED",
            (T,),
            "ALTER TABLE `s`.`t` ADD `e` int AS (a + 1) STORED, ADD KEY x (a) INVISIBLE",
        ),
        (
            "ALTER TABLE t ADD c varchar(50) COMPRESSED NOT NULL, PAGE_COMPRESSED=1",
            (T,),
            "ALTER TABLE `s`.`t` ADD `c` varchar(50) NOT NULL",
        ),
        (
            "ALTER TABLE t ADD d int DEFAULT X'3130'",
            (T,),
            "ALTER TABLE `s`.`t` ADD `d` int DEFAULT 10",
        ),
        (
            "ALTER TABLE u ADD CONSTRAINT FOREIGN KEY ix (a) REFERENCES t (a)",
            (T, U),
            "ALTER TABLE `s`.`u` ADD CONSTRAINT `ix` FOREIGN KEY ix (a) REFERENCES `s`.`t` (a)",
        ),
        (
            "ALTER TABLE w ALTER b SET DEFAULT 0x12,"
            " ADD c varchar(3) CHARACTER SET latin1 COLLATE DEFAULT",
            ("CREATE TABLE w (a int PRIMARY KEY, b blob)",),
            "ALTER TABLE `s`.`w` ALTER b SET DEFAULT (0x12), ADD `c` varchar(3) CHARACTER SET"
            " latin1 COLLATE latin1_swedish_ci",
        ),
        (
            "ALTER TABLE t ADD c year(2), ADD COLUMN IF NOT EXISTS c int",
            (T,),
            "ALTER TABLE `s`.`t` ADD `c` year",
        ),
        (
            "ALTER TABLE g ALTER b SET DEFAULT 5, ADD c int",
            ("CREATE TABLE g (a int PRIMARY KEY, b int AS (a + 1) STORED)",),
            "ALTER TABLE `s`.`g` ADD `c` int",
        ),
        (
            "ALTER TABLE p ADD PRIMARY KEY (a, b), MODIFY b timestamp(2) NULL DEFAULT LOCALTIME(2),"
            " ADD c int NULL DEFAULT NULL, CHANGE a a int DEFAULT NULL",
            ("CREATE TABLE p (a int, b timestamp NULL)",),
            "ALTER TABLE `s`.`p` ADD PRIMARY KEY (a, b), MODIFY `b` timestamp(2) DEFAULT"
            " LOCALTIME(2), ADD `c` int NULL DEFAULT NULL, CHANGE a `a` int",
        ),
    ],
)
def test_mariadb_for_mysql(sql: str, before: tuple[str, ...], expected: str) -> None:
    found = rewrite(_change(sql, MARIADB, *before), TO_MYSQL).statements
    assert ";".join(" ".join(s.split()) for s in found).replace(" )", ")") == expected


@pytest.mark.parametrize(
    ("sql", "before", "expected"),
    [
        (
            "CREATE TABLE v (a int, g point SRID 4326 NOT NULL, KEY k (a) INVISIBLE,"
            " CHECK (a > 1) ENFORCED) COLLATE utf8mb4_0900_ai_ci COMPRESSION='zlib'",
            (),
            "CREATE TABLE `s`.`v` (`a` int, `g` point NOT NULL, KEY k (a)"
            " IGNORED, CHECK (a > 1)) DEFAULT CHARACTER SET utf8mb4"
            " COLLATE utf8mb4_uca1400_nopad_ai_ci",
        ),
        (
            "ALTER TABLE t ALTER INDEX k INVISIBLE",
            (T,),
            "ALTER TABLE `s`.`t` ALTER INDEX k IGNORED",
        ),
        (
            "ALTER TABLE t ADD c int GENERATED ALWAYS AS (a) STORED NOT NULL VISIBLE",
            (T,),
            "ALTER TABLE `s`.`t` ADD `c` int GENERATED ALWAYS AS (a) STORED",
        ),
        ("ALTER TABLE t DROP CHECK c1", (T,), "ALTER TABLE `s`.`t` DROP CONSTRAINT c1"),
        (
            "ALTER TABLE u DROP COLUMN b",
            (
                "CREATE TABLE u (a int, b int, c int, UNIQUE k (a, b), UNIQUE m (b, c),"
                " UNIQUE one (b), KEY (b, c))",
            ),
            "ALTER TABLE `s`.`u` DROP KEY `k`, ADD UNIQUE KEY `k` (`a`), DROP KEY `m`,"
            " ADD UNIQUE KEY `m` (`c`), DROP COLUMN b",
        ),
        (
            "CREATE TABLE v (a int, FOREIGN KEY ix (a) REFERENCES t (a))",
            (T,),
            "CREATE TABLE `s`.`v` (`a` int, CONSTRAINT `v_ibfk_1` FOREIGN KEY (a) REFERENCES"
            " `s`.`t` (a)) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        ),
        (
            "ALTER TABLE u DROP b, DROP KEY k",
            ("CREATE TABLE u (a int, b int, UNIQUE k (a, b))",),
            "ALTER TABLE `s`.`u` DROP b, DROP KEY k",
        ),
        (
            "ALTER TABLE t ALTER a SET DEFAULT X'11', ADD d decimal(5,1) DEFAULT x'0A',"
            " ADD e varchar(3) DEFAULT X'41'",
            (T,),
            "ALTER TABLE `s`.`t` ALTER a SET DEFAULT 17, ADD `d` decimal(5,1) DEFAULT 10,"
            " ADD `e` varchar(3) DEFAULT X'41'",
        ),
    ],
)
def test_mysql_for_mariadb(sql: str, before: tuple[str, ...], expected: str) -> None:
    found = rewrite(_change(sql, MYSQL, *before), TO_MARIADB).statements
    assert ";".join(" ".join(s.split()) for s in found).replace(" )", ")") == expected


@pytest.mark.parametrize(
    ("sql", "session"),
    [
        ("CREATE TABLE v (a int) WITH SYSTEM VERSIONING", MARIADB),
        ("CREATE TABLE v (a int DEFAULT NEXT VALUE FOR sq)", MARIADB),
        ("ALTER IGNORE TABLE t ADD UNIQUE (b)", MARIADB),
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb3, COLLATE latin1_bin", MARIADB),
        ("ALTER TABLE t DEFAULT CHARSET latin1, CONVERT TO CHARACTER SET utf8mb4", MARIADB),
        ("CREATE TABLE v (a int, s date, e date, PERIOD FOR p (s, e))", MARIADB),
        ("ALTER TABLE t ADD INDEX ((a + 1))", MYSQL),
        ("ALTER TABLE t ADD INDEX ((a + 1)), RENAME v", MYSQL),
        ("ALTER TABLE t ADD CHECK (a > 1) NOT ENFORCED", MYSQL),
        ("CREATE TABLE v (a varchar(3) COLLATE utf8mb4_de_pb_0900_ai_ci)", MYSQL),
    ],
)
def test_what_the_other_family_has_not_is_refused_by_name(sql: str, session: Session) -> None:
    server = TO_MYSQL if session.mariadb else TO_MARIADB
    with pytest.raises(DDLNotTranslatable) as e:
        rewrite(_change(sql, session, T), server)
    error: TidegateError = e.value
    assert error.hint
    assert "has no" in error.message


@pytest.mark.parametrize("default", ["NEXT VALUE FOR sq", "nextval(sq)", "(setval(sq, 5) + 1)"])
def test_a_table_like_one_that_asks_a_sequence_is_refused(default: str) -> None:
    model = f"CREATE TABLE m (a int DEFAULT {default})"
    change = _change("CREATE TABLE n LIKE m", MARIADB, "CREATE SEQUENCE sq", model)
    with pytest.raises(DDLNotTranslatable, match="sequences"):
        rewrite(change, TO_MYSQL)
