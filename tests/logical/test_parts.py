"""Parts that rows are read from: all of them, and only while they are defined as their table is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cdc.base.nodes import qualified
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter
from cdc.logical.errors import LogicalTableKeyless, PartsChanging
from cdc.logical.names import PartNames
from cdc.logical.parts import KnownParts, PartsRead, TablePart, parts_of
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Table
from cdc.source.merging import position_of
from tests.changelog.logs import ddl
from tests.processor.test_ddl_horizon import START, _log

PATTERNS = ("{schema}_#.{table}_#", "broadcast:{schema}_#.{table}")


def _orders(columns: str = "id INT PRIMARY KEY, a DECIMAL(10,2), s VARCHAR(20)") -> Table:
    return parse_create_table(f"CREATE TABLE orders ({columns})", Session(), schema="mall")


@dataclass
class Nodes:
    """The logs of two nodes, each with two parts of ``mall.orders`` and all of ``mall.regions``."""

    folder: Path
    stack: ExitStack
    writers: dict[str, LogWriter] = field(default_factory=dict)
    logs: dict[str, ChangeLog] = field(default_factory=dict)
    at: int = 0

    def make(self) -> None:
        for node in ("n1", "n2"):
            self.writers[node] = self.stack.enter_context(_log(self.folder / node))
            for number in (0, 1):
                database = f"mall_{number}{node[1]}"
                self.says(node, f"CREATE DATABASE {database}")
                columns = "s VARCHAR(20), id INT PRIMARY KEY, a DECIMAL(10,2), _more INT"
                self.says(node, f"CREATE TABLE {database}.orders_{number}{node[1]} ({columns})")
                self.says(node, f"CREATE TABLE {database}.regions (id INT PRIMARY KEY)")
            self.logs[node] = self.stack.enter_context(closing(ChangeLog.open(self.folder / node)))
        self.merged = self.stack.enter_context(_log(self.folder / "merged"))
        self.merged.commit(START + 1, position_of(dict.fromkeys(self.logs, START)))
        self.log = self.stack.enter_context(closing(ChangeLog.open(self.folder / "merged")))

    def says(self, node: str, text: str) -> None:
        self.at += 10
        ddl(self.writers[node], START + self.at, text)
        self.writers[node].commit(START + self.at, {})

    def stands(self, **logical: list[object]) -> None:
        """The merged log comes to where the nodes' logs are; ``logical``: whose a part is there."""
        self.at += 10
        self.merged.commit(START + self.at, position_of(self.seen()) | {"logical": logical})
        self.log.refresh()

    def seen(self) -> dict[str, int]:
        return {name: log.refresh().resolved_ts for name, log in self.logs.items()}


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with ExitStack() as stack:
        made = Nodes(tmp_path, stack)
        made.make()
        yield made


def _read(nodes: Nodes) -> PartsRead:
    return PartsRead(PATTERNS, nodes.log, nodes.logs)


def test_a_table_is_read_from_each_part_by_its_own_columns(nodes: Nodes) -> None:
    """Those of parts are in another order, and one has columns that nobody is shown."""
    parts, table = _read(nodes), _orders()
    parts.begin(nodes.seen())
    found = parts.of(table)
    assert [(t.schema, t.name) for t in found] == [
        (qualified("n1", "mall_01"), "orders_01"),
        (qualified("n1", "mall_11"), "orders_11"),
        (qualified("n2", "mall_02"), "orders_02"),
        (qualified("n2", "mall_12"), "orders_12"),
    ]
    assert all(t.columns == table.columns and t.handle_key == table.handle_key for t in found)
    assert parts.known(table) == found
    assert parts.same("mall.orders")


@pytest.mark.parametrize(
    "change",
    [
        "MODIFY a DECIMAL(10,0)",
        "MODIFY s VARCHAR(20) CHARACTER SET latin1",
        "DROP COLUMN s",
        "RENAME COLUMN s TO t",
    ],
)
def test_a_part_that_is_ahead_is_not_read(nodes: Nodes, change: str) -> None:
    parts = _read(nodes)
    parts.begin(nodes.seen())
    taken = parts.of(_orders())
    nodes.says("n2", f"ALTER TABLE mall_12.orders_12 {change}")
    # What is read with what was taken before may be of either definition.
    assert parts.same("mall.orders")
    nodes.seen()
    assert not parts.same("mall.orders")
    parts.begin(nodes.seen())
    with pytest.raises(PartsChanging) as refused:
        parts.of(_orders())
    assert "mall_12.orders_12 on node n2" in str(refused.value)
    assert [t.name for t in parts.known(_orders())] == [t.name for t in taken]


def test_statements_of_other_tables_and_added_columns_are_no_change(nodes: Nodes) -> None:
    parts = _read(nodes)
    parts.begin(nodes.seen())
    parts.of(_orders())
    nodes.says("n1", "CREATE TABLE mall_01.more_01 (id INT PRIMARY KEY)")
    nodes.seen()
    assert parts.same("mall.orders")
    nodes.says("n1", "ALTER TABLE mall_01.orders_01 ADD COLUMN c INT")
    parts.begin(nodes.seen())
    # Its values are those of columns that the table does not have yet.
    assert len(parts.of(_orders())) == 4
    with pytest.raises(PartsChanging):
        parts.of(_orders("id INT PRIMARY KEY, c INT"))


def test_a_node_that_has_come_is_not_passed_over(nodes: Nodes) -> None:
    seen = nodes.seen()
    parts = PartsRead(PATTERNS, nodes.log, {"n1": nodes.logs["n1"]})
    with pytest.raises(PartsChanging):
        parts.begin({"n1": seen["n1"]})


def test_what_all_parts_have_is_read_once(nodes: Nodes) -> None:
    parts = _read(nodes)
    parts.begin(nodes.seen())
    regions = parse_create_table(
        "CREATE TABLE regions (id INT PRIMARY KEY)", Session(), schema="mall"
    )
    assert [(t.schema, t.name) for t in parts.of(regions)] == [
        (qualified("n1", "mall_01"), "regions")
    ]


def test_tables_without_parts_or_without_a_key_are_refused(nodes: Nodes) -> None:
    """Never are they read as empty."""
    parts = _read(nodes)
    parts.begin(nodes.seen())
    absent = parse_create_table(
        "CREATE TABLE absent (id INT PRIMARY KEY)", Session(), schema="mall"
    )
    with pytest.raises(PartsChanging):
        parts.of(absent)
    with pytest.raises(LogicalTableKeyless):
        parts.of(_orders("a DECIMAL(10,2)"))


def test_tables_that_were_renamed_keep_their_parts() -> None:
    names = PartNames(PATTERNS[:1]).renamed(("mall", "orders"), ("mall", "sold"), parts=False)
    again = KnownParts.at(PATTERNS[:1], {"logical": names.to_dict()})
    tables = {"n1": [("mall_1", "orders_1"), ("mall_0", "orders_0"), ("other", "orders_2")]}
    assert parts_of(again, tables) == {
        ("mall", "sold"): (
            TablePart("n1", "mall_0", "orders_0"),
            TablePart("n1", "mall_1", "orders_1"),
        )
    }
    assert KnownParts.at(PATTERNS[:1], {}) == KnownParts(PartNames(PATTERNS[:1]))
    awaited = KnownParts.at(
        PATTERNS[:1], {"logical": {"awaited": [[["n1", "mall_1", "orders_1"], [5]]]}}
    )
    assert awaited.of("n1", "mall_1", "orders_1") is None
    # One of the same name on another node is none that is waited for.
    assert awaited.of("n2", "mall_1", "orders_1") == ("mall", "orders")


def test_of_tables_that_marks_tell_of_one_is_read_when_its_mark_has_come(nodes: Nodes) -> None:
    """Its rows are there twice before: it is being copied from another part."""
    read = PartsRead(("marked:{schema}_#.{table}_#",), nodes.log, nodes.logs)
    nodes.stands()
    nodes.says("n1", "CREATE TABLE mall_01.orders_9 (s VARCHAR(20), id INT PRIMARY KEY, a INT)")
    read.begin(nodes.seen())
    parts = [table.name for table in read.of(_orders("id INT PRIMARY KEY, s VARCHAR(20)"))]
    assert parts == ["orders_01", "orders_11", "orders_02", "orders_12"]
    assert read.same("mall.orders")
    nodes.stands(awaited=[[["n1", "mall_01", "orders_9"], [START + nodes.at]]])
    read.begin(nodes.seen())
    assert len(read.of(_orders("id INT PRIMARY KEY, s VARCHAR(20)"))) == 4
    assert read.same("mall.orders")
    # It takes the place of another while they are read.
    nodes.stands(gone=[["n2", "mall_12", "orders_12"]])
    assert not read.same("mall.orders")
    read.begin(nodes.seen())
    parts = [table.name for table in read.of(_orders("id INT PRIMARY KEY, s VARCHAR(20)"))]
    assert parts == ["orders_01", "orders_9", "orders_11", "orders_02"]
    assert read.same("mall.orders")
