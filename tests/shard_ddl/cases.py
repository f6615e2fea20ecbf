"""DM's cases of shard merge in pessimistic mode, and what becomes of each here.

Numbers are those of ``dm/tests/shardddl*`` in pingcap/tiflow. Three tables are one: ``S1`` (of the
first source), ``S2`` and ``T2`` (of the second).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

S1, S2, T2 = "shop.tb1", "far.tb1", "far.tb2"
SHARDS = (S1, S2, T2)
Step = tuple[str, str]
RESTART: Step = ("", "restart")


class Outcome(StrEnum):
    """What the target's table becomes; ``ONCE``: that of all, by one statement for each change.

    ``FOLLOWS`` is optimistic: nothing waits.
    """

    ONCE = "carried out once"
    CONFLICT = "TG:ErrShardDDLConflict"
    REFUSED = "TG:ErrShardChangeRefused"
    DIFFERS = "TG:ErrShardTablesDiffer"
    WAITS = "waits for the others"
    NOTHING = "nothing at the target"
    FOLLOWS = "the target takes the rows of all"


@dataclass(frozen=True)
class Case:
    """``steps`` are a table and an action of ALTER TABLE, or a statement with ``{}`` for it.

    ``runs``: how many statements the target executes.
    """

    number: str
    about: str
    steps: tuple[Step, ...]
    outcome: Outcome = Outcome.ONCE
    runs: int = 1
    columns: str = "id INT PRIMARY KEY, a INT, b INT"


def every(*actions: str) -> tuple[Step, ...]:
    """Each action on each table, one action after the other."""
    return tuple((table, action) for action in actions for table in SHARDS)


def by_table(*actions: str) -> tuple[Step, ...]:
    """All actions on a table before the next table has any: sequences."""
    return tuple((table, action) for table in SHARDS for action in actions)


def two(one: str, other: str) -> tuple[Step, ...]:
    """Two tables of which each has something else."""
    return (S1, one), (S2, other), (T2, one)


KEYED = "id INT PRIMARY KEY, a INT, b INT, KEY i (a), KEY j (b)"
BARE = "id INT NOT NULL, a INT, b INT"
PARTED = "id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9)"

CASES = (
    Case("002, 005-009, 030", "add a column to all", every("ADD COLUMN c INT")),
    Case("003", "one has not come", ((S1, "ADD c INT"), (T2, "ADD c INT")), Outcome.WAITS, 0),
    Case(
        "010", "add c, add d on one, then on the others", by_table("ADD c INT", "ADD d INT"), runs=2
    ),
    Case("011", "INT here, FLOAT there", two("ADD c INT", "ADD c FLOAT"), Outcome.CONFLICT, 0),
    Case(
        "012",
        "two changes in the other order",
        ((S1, "ADD c INT"), (S1, "ADD d INT"), (S2, "ADD d INT"), (S2, "ADD c INT")),
        Outcome.CONFLICT,
        0,
    ),
    Case("017", "drop a table", ((S1, "DROP TABLE {}"),), Outcome.NOTHING, 0),
    Case("019", "truncate a table", ((S1, "TRUNCATE TABLE {}"),), Outcome.REFUSED, 0),
    Case(
        "021", "rename within the group", ((S1, "RENAME TABLE {} TO shop.tb3"),), Outcome.NOTHING, 0
    ),
    Case(
        "023",
        "two renames in one statement",
        ((S2, "RENAME TABLE {} TO far.tb3, far.tb2 TO far.tb4"),),
        Outcome.REFUSED,
        0,
    ),
    Case(
        "026",
        "create a table, change all",
        (
            ("shop.tb3", "CREATE TABLE {} LIKE shop.tb1"),
            *every("ADD c INT"),
            ("shop.tb3", "ADD c INT"),
        ),
    ),
    Case(
        "027",
        "create a table with another column",
        (("shop.tb3", "CREATE TABLE {} (id INT PRIMARY KEY, a INT, b INT, val INT)"),),
        Outcome.DIFFERS,
        0,
    ),
    Case("028, 077", "drop the primary key", every("DROP PRIMARY KEY")),
    Case("033", "NOT NULL without a default", every("ADD c INT NOT NULL")),
    Case(
        "034",
        "UNIQUE AUTO_INCREMENT",
        every("ADD c INT UNIQUE AUTO_INCREMENT"),
        Outcome.REFUSED,
        0,
        BARE,
    ),
    Case(
        "037",
        "default 0 here, -1 there",
        two("ADD c INT DEFAULT 0", "ADD c INT DEFAULT -1"),
        Outcome.CONFLICT,
        0,
    ),
    Case(
        "038",
        "a new column with DEFAULT NOW()",
        every("ADD c DATETIME DEFAULT NOW()"),
        Outcome.REFUSED,
        0,
    ),
    Case("039", "a column in latin1", every("ADD c VARCHAR(9) CHARSET latin1")),
    Case(
        "040",
        "latin1 here, utf8mb4 there",
        two("ADD c VARCHAR(9) CHARSET latin1", "ADD c VARCHAR(9) CHARSET utf8mb4"),
        Outcome.CONFLICT,
        0,
    ),
    Case("041", "the same generated column", every("ADD c INT AS (a + 1)")),
    Case(
        "043",
        "another expression",
        two("ADD c INT AS (a + 1)", "ADD c INT AS (a + 2)"),
        Outcome.CONFLICT,
        0,
    ),
    Case("046", "drop a column", every("DROP COLUMN b")),
    Case(
        "047, 048",
        "drop a generated column",
        every("DROP COLUMN g"),
        columns="id INT PRIMARY KEY, a INT, g INT AS (a + 1)",
    ),
    Case("049", "rename a column", every("CHANGE a c INT")),
    Case(
        "050",
        "a to c here, a to d there",
        two("CHANGE a c INT", "CHANGE a d INT"),
        Outcome.CONFLICT,
        0,
    ),
    Case(
        "051",
        "a to c here, b to c there",
        two("CHANGE a c INT", "CHANGE b c INT"),
        Outcome.CONFLICT,
        0,
    ),
    Case(
        "056, 065",
        "another place",
        two("MODIFY a INT FIRST", "MODIFY a INT AFTER b"),
        Outcome.CONFLICT,
        0,
    ),
    Case("057", "change with a default", every("CHANGE a c INT DEFAULT 1")),
    Case(
        "058, 067",
        "defaults differ",
        two("MODIFY a INT DEFAULT 0", "MODIFY a INT DEFAULT 1"),
        Outcome.CONFLICT,
        0,
    ),
    Case(
        "059, 068",
        "DEFAULT NOW() of a column that is there",
        every("MODIFY t DATETIME DEFAULT NOW()"),
        columns="id INT PRIMARY KEY, t DATETIME",
    ),
    Case("062", "INT to BIGINT", every("MODIFY a BIGINT")),
    Case(
        "063",
        "MEDIUMINT here, BIGINT there",
        two("MODIFY a MEDIUMINT", "MODIFY a BIGINT"),
        Outcome.CONFLICT,
        0,
    ),
    Case("064", "only a width", every("MODIFY a INT(30)")),
    Case("066", "a default", every("MODIFY a INT DEFAULT 1")),
    Case("071, 073", "convert to utf8mb4", every("CONVERT TO CHARACTER SET utf8mb4")),
    Case("076, 078", "add a primary key", every("ADD PRIMARY KEY (id)"), columns=BARE),
    Case(
        "080",
        "three unique keys",
        by_table("ADD UNIQUE u (a)", "ADD UNIQUE v (b)", "ADD UNIQUE w (a, b)"),
        runs=3,
    ),
    Case(
        "081",
        "add and drop unique keys",
        by_table("ADD UNIQUE u (a)", "ADD UNIQUE v (b)", "DROP KEY u"),
        runs=3,
    ),
    Case("082", "rename an index", every("RENAME INDEX i TO k"), columns=KEYED),
    Case(
        "094-098",
        "the owner is another in between",
        (
            (S1, "ADD c INT"),
            RESTART,
            (S2, "ADD c INT"),
            RESTART,
            (T2, "ADD c INT"),
            RESTART,
            *every("ADD d INT"),
        ),
        runs=2,
    ),
    Case(
        "103",
        "add, drop, change, interleaved",
        (
            (S1, "ADD c INT"),
            (S2, "ADD c INT"),
            (S1, "DROP b"),
            (T2, "ADD c INT"),
            (S1, "MODIFY a BIGINT"),
            (S2, "DROP b"),
            (T2, "DROP b"),
            (T2, "MODIFY a BIGINT"),
            (S2, "MODIFY a BIGINT"),
        ),
        runs=3,
    ),
    Case("113", "two columns in parentheses", every("ADD COLUMN (c INT, d INT)")),
    Case("114", "drop two columns", every("DROP a, DROP b")),
    Case("116", "add one, drop one", every("ADD c INT, DROP b")),
    Case(
        "118",
        "an index with other columns",
        by_table("DROP KEY i", "ADD KEY i (a, b)"),
        runs=2,
        columns=KEYED,
    ),
    Case(
        "119, 121",
        "one name, other columns",
        two("ADD KEY k (a)", "ADD KEY k (b)"),
        Outcome.CONFLICT,
        0,
    ),
    Case(
        "120, 122, 123",
        "several indexes",
        every("ADD KEY k (a), ADD KEY l (b)", "DROP KEY i, DROP KEY j"),
        runs=2,
        columns=KEYED,
    ),
    Case("128", "nullable to NOT NULL", every("MODIFY a INT NOT NULL")),
    Case("129", "NOT NULL to a default", every("MODIFY a INT DEFAULT 10")),
    Case(
        "130",
        "default 0 here, -1 twice",
        (
            (S1, "MODIFY b INT DEFAULT 0"),
            (S2, "MODIFY b INT DEFAULT -1"),
            (T2, "MODIFY b INT DEFAULT -1"),
        ),
        Outcome.CONFLICT,
        0,
    ),
    Case(
        "132-134",
        "other columns of the primary key",
        every("DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)"),
    ),
    Case("138", "add a unique key", every("ADD UNIQUE u (a)")),
    Case(
        "139",
        "drop a unique key",
        every("DROP KEY u"),
        columns="id INT PRIMARY KEY, a INT, UNIQUE u (a)",
    ),
    Case(
        "142",
        "add a partition",
        every("ADD PARTITION (PARTITION p1 VALUES LESS THAN (20))"),
        columns=PARTED,
    ),
    Case(
        "143",
        "drop a partition",
        every("ADD PARTITION (PARTITION p1 VALUES LESS THAN (20))", "DROP PARTITION p1"),
        runs=2,
        columns=PARTED,
    ),
    Case("145", "ENGINE=InnoDB", every("ENGINE = InnoDB"), Outcome.NOTHING, 0),
    Case("146", "ROW_FORMAT=COMPACT", every("ROW_FORMAT = COMPACT"), Outcome.NOTHING, 0),
    Case("148", "a chain of AFTER", every("ADD c INT AFTER a, ADD d INT AFTER c")),
    Case(
        "149",
        "a longer VARCHAR",
        every("MODIFY v VARCHAR(20)"),
        columns="id INT PRIMARY KEY, v VARCHAR(10)",
    ),
    Case(
        "150",
        "a shorter VARCHAR, of one",
        ((S1, "MODIFY v VARCHAR(10)"),),
        Outcome.WAITS,
        0,
        "id INT PRIMARY KEY, v VARCHAR(20)",
    ),
    Case("151", "INT to DOUBLE", every("MODIFY a DOUBLE")),
    Case(
        "SAME_DDL_TWICE",
        "add, drop and add the same column",
        by_table("ADD c INT", "DROP c", "ADD c INT", "DROP c", "ADD c INT"),
        runs=5,
    ),
    Case(
        "ADD_DROP_COLUMNS",
        "several in one statement",
        every("ADD c INT, ADD d INT, ADD e INT", "DROP c, DROP d", "ADD f INT, DROP e"),
        runs=3,
    ),
    Case(
        "COLUMN_INDEX",
        "columns and indexes in one statement",
        every("ADD c INT, ADD KEY k (c)", "DROP KEY k, ADD d INT, ADD KEY k (d)"),
        runs=2,
    ),
    Case(
        "RENAME_TABLE",
        "rename two tables in the group, change all",
        (
            *every("ADD c INT"),
            (S1, "RENAME TABLE {} TO shop.tb3"),
            (T2, "RENAME TABLE {} TO far.tb4"),
            ("shop.tb3", "ADD d INT"),
            (S2, "ADD d INT"),
            ("far.tb4", "ADD d INT"),
        ),
        runs=2,
    ),
    Case(
        "#5002, dm#628",
        "two changes of one, then of the other",
        (
            (S1, "ADD c INT"),
            (S1, "ADD d INT"),
            (S2, "ADD c INT"),
            (S2, "ADD d INT"),
            (T2, "ADD c INT"),
            (T2, "ADD d INT"),
        ),
        runs=2,
    ),
    Case(
        "dm#1253",
        "changes in turn",
        (
            (S1, "ADD c INT"),
            (S2, "ADD c INT"),
            (S1, "ADD d INT"),
            (S2, "ADD d INT"),
            (T2, "ADD c INT"),
            (T2, "ADD d INT"),
        ),
        runs=2,
    ),
    Case(
        "dm#2062",
        "a source without a table",
        ((S2, "DROP TABLE {}"), (T2, "DROP TABLE {}"), (S1, "ADD c INT")),
    ),
)
