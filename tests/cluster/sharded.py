"""Logical tables over the nodes of a distributed database, and schema changes from part to part.

A change goes over the parts in any order while rows are written, and ends with a mark: a row that a
distributed transaction writes on every node. Writers see new columns behind the mark, and columns
that go no more before the first part loses them.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tests.cluster.coordinator import DistributedDatabase, Session
from tests.servers import Database

PARTS = 4
PATTERN = "{schema}_#.{table}_#"


def drop_parts(node: Database) -> None:
    """Drop the databases of parts that others have left on a node."""
    listed = "SELECT schema_name FROM information_schema.schemata"
    for (name,) in node.execute(f"{listed} WHERE schema_name REGEXP '_[0-9]{{6}}$'"):
        node.execute(f"DROP DATABASE {name}")


class ShardedDatabase:
    """The database ``mall``, whose tables have ``PARTS`` parts, by id, on all nodes in turn."""

    def __init__(self, cluster: DistributedDatabase, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self.marks: list[tuple[int, str]] = []
        self._session = Session(cluster, seed)
        self._number = 0
        self._writers: list[Writer] = []
        self.loads = 0
        # By table and part: a node, and the name of the part there.
        self._moved: dict[tuple[str, int], tuple[int, str]] = {}
        self.doubled: dict[tuple[str, int], tuple[int, str]] = {}
        for node in cluster.nodes:
            drop_parts(node)
        for part in range(PARTS):
            cluster.nodes[self.node(part)].execute(f"CREATE DATABASE mall_{part:06d}")

    def node(self, part: int, table: str = "") -> int:
        return self._moved.get((table, part), (part % len(self.cluster.nodes), ""))[0]

    def part(self, table: str, part: int) -> str:
        return self._moved.get((table, part), (0, f"mall_{part:06d}.{table}_{part:02d}"))[1]

    def renew(self) -> None:
        """Marks go over the nodes that there are now."""
        self._session.close()
        self._session = Session(self.cluster, self.random.randrange(1 << 30))

    def over_parts(self, table: str, text: str, pause_s: float = 0.0) -> None:
        """A statement on each part, which it calls ``{part}``, in any order."""
        for part in self.random.sample(range(PARTS), PARTS):
            node = self.cluster.nodes[self.node(part, table)]
            node.execute(text.format(part=self.part(table, part), number=f"{part:02d}"))
            time.sleep(pause_s)

    def mark(self, table: str, sql: str, visibility: int = 1, meta: str = "{}") -> int:
        """A mark on all nodes; the id of its transaction."""
        self._number += 1
        text = sql.replace("\\", "\\\\").replace("'", "''")
        return self._session.everywhere(
            "INSERT INTO __cdc__.__cdc_ddl_record__ VALUES"
            f" ({self._number}, {self._number}, '{sql.split()[0]}', 'mall', '{table}', NOW(),"
            f" '{text}', '{meta}', {visibility}, '{{}}')"
        )

    def topology(self, table: str) -> str:
        """Where the parts of a table are, as META_INFO of a mark has it."""
        schemas: dict[tuple[int, str], list[str]] = {}
        for part in range(PARTS):
            schema, name = self.part(table, part).split(".")
            schemas.setdefault((self.node(part, table), schema), []).append(name)
        listed = [
            {"storageInstId": f"dn-{n}", "group": f"{s}_GROUP", "schema": s, "phyTables": names}
            for (n, s), names in schemas.items()
        ]
        return json.dumps(
            {"logicTableMeta": {"tableName": table, "tableType": 1, "phySchemas": listed}}
        )

    def databases(self, table: str) -> str:
        """The same of databases; their storage instances are what the tests call nodes."""
        places = {(self.node(n, table), self.part(table, n).split(".")[0]) for n in range(PARTS)}
        listed = [{"storageInstId": f"n{n + 1}", "group": f"{s}_GROUP", "schema": s}
                  for n, s in sorted(places)]  # fmt: skip
        return json.dumps({"logicDbMeta": {"schema": "mall", "phySchemas": listed}})

    def prepare_move(self, table: str, part: int, node: int, name: str) -> None:
        """Copy a part to a node under a new name; from then on both are written."""
        schema = name.partition(".")[0]
        here = self.cluster.nodes[self.node(part, table)]
        there = self.cluster.nodes[node]
        with self.still():
            ((_, made),) = here.execute(f"SHOW CREATE TABLE {self.part(table, part)}")
            text = made.partition("(")
            there.execute(f"CREATE DATABASE IF NOT EXISTS {schema}")
            there.execute(f"CREATE TABLE {name} ({text[2]}")
            rows = here.execute(f"SELECT * FROM {self.part(table, part)}")
            values = ", ".join(
                "(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")" for row in rows
            )
            if rows:
                self._session.across([(node, [f"INSERT INTO {name} VALUES {values}"])])
            self.doubled[table, part] = node, name

    def give_up_move(self, table: str, part: int) -> None:
        """Nobody has heard of it."""
        with self.still():
            node, name = self.doubled.pop((table, part))
        self.cluster.nodes[node].execute(f"DROP TABLE {name}")

    def move(
        self, table: str, part: int, node: int, name: str, sql: str, pause_s: float,
        *, database: bool = False,
    ) -> None:  # fmt: skip
        """Move a part; ``sql``: what the mark has, which is for the coordinator alone.

        ``database``: the mark tells where databases are, and not tables.
        """
        self.prepare_move(table, part, node, name)
        time.sleep(pause_s)
        with self.still():
            left = self.node(part, table), self.part(table, part)
            self._moved[table, part] = self.doubled.pop((table, part))
            # Both are written until the old one is dropped.
            self.doubled[table, part] = left
        time.sleep(pause_s)
        meta = self.databases(table) if database else self.topology(table)
        self.mark("" if database else table, sql, 0, meta)
        time.sleep(pause_s)
        self.give_up_move(table, part)

    def change(self, table: str, sql: str, physical: str = "", pause_s: float = 0.0) -> int:
        """A statement on all parts, in any order, and its mark."""
        self.over_parts(table, physical or sql.replace(table, "{part}", 1), pause_s)
        return self.mark(table, sql)

    def everywhere(self, table: str, text: str) -> None:
        """A statement on each part, which it calls ``{part}``, in one transaction."""
        parts: dict[int, list[str]] = {}
        for part in range(PARTS):
            own = text.format(part=self.part(table, part), number=part)
            parts.setdefault(self.node(part, table), []).append(own)
        self._session.across(sorted(parts.items()))

    def rows(self, table: str, columns: str) -> list[tuple[object, ...]]:
        """All rows of all parts, in order."""
        found: list[tuple[object, ...]] = []
        for part in range(PARTS):
            node = self.cluster.nodes[self.node(part, table)]
            found += node.execute(f"SELECT {columns} FROM {self.part(table, part)}")
        return sorted(found, key=repr)

    @contextmanager
    def writing(
        self, table: str, columns: Sequence[str], writers: int = 3, pause_s: float = 0.004
    ) -> Iterator[None]:
        """Rows are written all the time, with these columns until :meth:`shows` says others."""
        self.loads += 1
        self._writers = [Writer(self, n, writers, table, tuple(columns)) for n in range(writers)]
        for writer in self._writers:
            writer.pause_s = pause_s
        with ExitStack() as stack:
            for writer in self._writers:
                stack.enter_context(writer)
            yield
        for writer in self._writers:
            if writer.error is not None:
                raise writer.error

    def shows(self, columns: Sequence[str], table: str = "") -> None:
        """From now on writers see these columns; none that has begun before is under way."""
        for writer in self._writers:
            with writer.lock:
                writer.columns = tuple(columns)
                writer.table = table or writer.table

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nobody writes meanwhile."""
        with ExitStack() as stack:
            for writer in self._writers:
                stack.enter_context(writer.lock)
            yield


class Writer(threading.Thread):
    """Inserts, updates and deletes rows of its own ids, in transactions over one or two parts."""

    def __init__(
        self, sharded: ShardedDatabase, number: int, step: int, table: str, columns: tuple[str, ...]
    ) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.table, self.columns = table, columns
        self.error: BaseException | None = None
        self._sharded, self._step = sharded, step
        # Of ids that no writer before had.
        self._first = number + (sharded.loads - 1) * 4_000_000
        self._random = random.Random(f"{sharded.random.random()} {number}")
        self._session = Session(sharded.cluster, number + 100)
        self._known: list[int] = []
        self._ended = threading.Event()
        self.written = 0
        self.pause_s = 0.0

    def __enter__(self) -> Writer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join(60)
        self._session.close()

    def run(self) -> None:
        try:
            while not self._ended.wait(self.pause_s):
                with self.lock:
                    self._transaction()
                self.written += 1
        except BaseException as error:
            self.error = error

    def _transaction(self) -> None:
        parts: dict[int, list[str]] = {}
        for _ in range(self._random.choice((1, 1, 2, 3))):
            id, text = self._change()
            part = id % PARTS
            node, where = self._sharded.node(part, self.table), self._sharded.part(self.table, part)
            parts.setdefault(node, []).append(text.format(part=where))
            if (self.table, part) in self._sharded.doubled:
                node, where = self._sharded.doubled[self.table, part]
                parts.setdefault(node, []).append(text.format(part=where))
        self._session.across(sorted(parts.items()))

    def _change(self) -> tuple[int, str]:
        chosen = self._random.random()
        if self._known and chosen < 0.3:
            id = self._random.choice(self._known)
            sets = ", ".join(f"{c} = {self._value()}" for c in self.columns)
            return id, f"UPDATE {{part}} SET {sets} WHERE id = {id}"
        if self._known and chosen < 0.4:
            id = self._known.pop(self._random.randrange(len(self._known)))
            return id, f"DELETE FROM {{part}} WHERE id = {id}"
        id = self._first + self._step * (self.written * 4 + len(self._known) % 4 + 1)
        while id in self._known:
            id += self._step * 1_000_000
        self._known.append(id)
        names = ", ".join(("id", *self.columns))
        values = ", ".join(str(v) for v in (id, *(self._value() for _ in self.columns)))
        return id, f"INSERT INTO {{part}} ({names}) VALUES ({values})"

    def _value(self) -> int:
        return self._random.randrange(1, 1 << 15)
