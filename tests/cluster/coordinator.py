"""A distributed database out of stock servers: a timestamp service, and transactions over nodes.

It keeps PolarDB-X's rules: xids ``drds-<id>@<group>``, the commit TSO asked for after the last
prepare, one for all branches. The TSO is carried in several ways at once: header time and thread of
XA COMMIT, a row of the commit log that another session writes before, and on MySQL the original
commit timestamp. The commit log is also what decides a transaction in doubt.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pymysql
from pymysql.constants import CLIENT

from cdc.binlog.xa import Xid
from tests.servers.database import Connection, Database

ACCOUNTS = 40
START = 1000
_STEP = 1 << 8  # all carriers keep this much of a TSO
_MARK = 1 << 31
# As PolarDB-X makes it.
MARKS_TABLE = (
    "CREATE TABLE __cdc__.__cdc_ddl_record__ (ID BIGINT UNSIGNED NOT NULL PRIMARY KEY,"
    " JOB_ID BIGINT UNSIGNED, SQL_KIND VARCHAR(50) NOT NULL, SCHEMA_NAME VARCHAR(200) NOT NULL,"
    " TABLE_NAME VARCHAR(200), GMT_CREATED DATETIME NOT NULL, DDL_SQL MEDIUMTEXT NOT NULL,"
    " META_INFO LONGTEXT, VISIBILITY BIGINT NOT NULL, EXT MEDIUMTEXT) DEFAULT CHARSET = utf8mb4"
)

# The coordinator's own tables on a node, anew.
OWN_TABLES = (
    "DROP DATABASE IF EXISTS __cdc__",
    "CREATE DATABASE __cdc__",
    "CREATE TABLE __cdc__.__cdc_heartbeat__ (id INT NOT NULL PRIMARY KEY, at BIGINT)",
    "CREATE TABLE __cdc__.__cdc_commit_log__ (transaction_id BIGINT NOT NULL PRIMARY KEY,"
    " tso BIGINT NOT NULL, branches INT NOT NULL)",
    MARKS_TABLE,
)


def accounts(node: int, first: int = 0) -> list[str]:
    """The statements that make a node's accounts, as they are at the beginning."""
    rows = ", ".join(f"({first + i}, {START})" for i in range(ACCOUNTS))
    table = f"bank.accounts_{node}"
    columns = "id INT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL"
    return [f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} VALUES {rows}"]


class TimestampService:
    """TSOs, ``ms << 22`` and a counter, strictly rising. ``ahead_ms`` makes its clock jump."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self.ahead_ms = 0

    def next(self) -> int:
        with self._lock:
            now = (time.time_ns() // 1_000_000 + self.ahead_ms) << 22
            self._last = max(self._last + _STEP, now)
            return self._last


@dataclass
class Journal:
    """What was committed: by transaction its TSO and nodes; transactions of one node, by node.

    ``others`` are those that are no transfers of the bank's.
    """

    distributed: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    heartbeats: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)
    local: Counter[int] = field(default_factory=Counter)
    rolled_back: int = 0


class InDoubt(Exception):
    """The coordinator died in a transaction, as it was told to."""


class DistributedDatabase:
    """``nodes`` under one coordinator; with a bank whose money stays the same.

    Node n has the table ``bank.accounts_<n>``, of those that there are at first, which are
    ``banks``; ids of accounts begin at n times ``spread``. Where it is ``enduring``, nodes may go
    away and come back: what was under way is decided then.
    """

    def __init__(
        self, nodes: Sequence[Database], seed: int = 1, spread: int = 0, *, enduring: bool = False
    ) -> None:
        self.spread = spread
        self.enduring = enduring
        self.nodes = list(nodes)
        self.banks = len(self.nodes)
        # Over how many nodes the last heartbeat went.
        self.beaten = 0
        self.random = random.Random(seed)
        self.tso = TimestampService()
        self.journal = Journal()
        self.abandoned: dict[int, list[int]] = {}
        self._lock = threading.Lock()
        self._next = seed << 40 | time.time_ns() // 1000 % (1 << 32)
        self.stop = threading.Event()
        self.silence = threading.Event()
        self.threads: list[threading.Thread] = []
        self.beating: threading.Thread | None = None
        self.errors: list[BaseException] = []

    def create(self) -> None:
        """The bank and the coordinator's own tables, anew."""
        for n, node in enumerate(self.nodes):
            node.execute("DROP DATABASE IF EXISTS bank", "CREATE DATABASE bank", *OWN_TABLES)
            node.execute(*accounts(n, n * self.spread))

    def transaction_id(self) -> int:
        with self._lock:
            self._next += 1
            return self._next

    def account(self, node: int, number: int) -> int:
        """The id of an account."""
        return node * self.spread + number

    def beat(self, heartbeat_s: float = 0.05) -> None:
        """One heartbeat, then more, until :meth:`finish`."""
        Session(self, 0).heartbeat()
        self.beating = threading.Thread(target=self._beat, args=(heartbeat_s,))
        self.beating.start()

    def start(self, workers: int, pause_s: float = 0.0) -> None:
        """Heartbeats and load, until :meth:`finish`; each worker rests between transactions."""
        if self.beating is None:
            self.beat()
        self.threads = [
            threading.Thread(target=self._work, args=(i, pause_s)) for i in range(workers)
        ]
        for thread in self.threads:
            thread.start()

    def rest(self) -> None:
        """End the load and decide what is in doubt; heartbeats go on."""
        self.stop.set()
        for thread in self.threads:
            thread.join(60)
        if self.errors:
            raise self.errors[0]
        session = Session(self, 0)
        session.recover()
        session.close()

    def end(self) -> None:
        """End load and heartbeats, whatever has become of them: others use the nodes next."""
        self.stop.set()
        self.silence.set()
        for thread in (*self.threads, *([self.beating] if self.beating else ())):
            thread.join(60)

    def finish(self) -> None:
        """End the load, decide what is in doubt, and close with two heartbeats."""
        self.rest()
        self.silence.set()
        if self.beating is not None:
            self.beating.join(60)
        if self.errors:
            raise self.errors[0]
        session = Session(self, 0)
        session.heartbeat()
        session.heartbeat()
        session.close()

    def _beat(self, heartbeat_s: float) -> None:
        with self._noted():
            session = Session(self, 0)
            while not self.silence.wait(heartbeat_s):
                try:
                    if len(session.connections) != len(self.nodes):
                        session.close()
                        session = Session(self, 0)
                    session.heartbeat()
                    self.beaten = len(session.connections)
                except self._gone():
                    session = self._again(session, 0, self.silence)
            session.close()

    def _work(self, seed: int, pause_s: float) -> None:
        with self._noted():
            session = Session(self, seed + 1)
            while not self.stop.wait(pause_s):
                try:
                    session.one()
                except self._gone():
                    session = self._again(session, self.transaction_id(), self.stop)
            session.close()

    def _gone(self) -> tuple[type[Exception], ...]:
        return (InDoubt, pymysql.MySQLError) if self.enduring else (InDoubt,)

    def _again(self, session: Session, seed: int, stop: threading.Event) -> Session:
        """Another session, once all that was left is decided, or the load ends."""
        if session.open is not None:
            self.abandoned[session.open[0]] = session.open[1]
        while True:
            session.close()
            try:
                session = Session(self, seed)
                session.recover()
                return session
            except pymysql.MySQLError:
                if not self.enduring or stop.is_set():
                    raise
                time.sleep(0.2)

    def _noted(self) -> _Noted:
        return _Noted(self)


class _Noted:
    def __init__(self, cluster: DistributedDatabase) -> None:
        self._cluster = cluster

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is not None:
            self._cluster.errors.append(error)
            self._cluster.stop.set()
        return True


class Session:
    """A thread of the coordinator, with two connections to each node: the second commits rows."""

    def __init__(self, cluster: DistributedDatabase, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        # Who sends one statement after the other spends most of the time on that.
        several = CLIENT.MULTI_STATEMENTS
        self.connections = [node.connect(client_flag=several) for node in cluster.nodes]
        self.others = [node.connect() for node in cluster.nodes]
        # Statements before and behind XA COMMIT.
        self.mysql = [node.kind == "mysql" for node in cluster.nodes]
        # What may be prepared, and its nodes: whoever gives the session up leaves it to recovery.
        self.open: tuple[int, list[int]] | None = None

    def close(self) -> None:
        for connection in (*self.connections, *self.others):
            with suppress(Exception):
                connection.close()

    # --- transactions ----------------------------------------------------------------------------

    def one(self) -> None:
        """A transaction of some kind."""
        chosen = self.random.random()
        count = self.cluster.banks
        if chosen < 0.65:
            nodes = self.random.sample(range(count), self.random.randint(2, min(3, count)))
            self.transfer(sorted(nodes))
        elif chosen < 0.8:
            self.local(self.random.randrange(count))
        elif chosen < 0.9:
            self.xa_of_one_node(self.random.randrange(count), one_phase=True)
        else:
            self.xa_of_one_node(self.random.randrange(count), one_phase=False)

    def transfer(self, nodes: list[int], die: str = "") -> int:
        """Move money between nodes; ``die``: where the coordinator is to die. The transaction."""
        # None is 0: a branch that changes nothing is not in a binlog.
        changes = [self.random.randrange(1, 50) for _ in nodes[1:]]
        changes.append(-sum(changes))
        parts = [
            (
                node,
                [
                    f"UPDATE bank.accounts_{node} SET balance = balance + {change}"
                    f" WHERE id = {self._account(node)}"
                ],
            )
            for node, change in zip(nodes, changes, strict=True)
        ]
        return self._two_phases(parts, die=die or self._fate())

    def heartbeat(self, nodes: Sequence[int] = ()) -> None:
        """On every node, or on these."""
        now = time.time_ns()
        text = f"REPLACE INTO __cdc__.__cdc_heartbeat__ VALUES (1, {now})"
        parts = [(node, [text]) for node in nodes or range(len(self.connections))]
        self._two_phases(parts, heartbeat=True)

    def everywhere(self, text: str) -> int:
        """A transaction with one statement on every node; its id."""
        return self.across([(node, [text]) for node in range(len(self.connections))])

    def across(self, parts: list[tuple[int, list[str]]]) -> int:
        """A transaction with these statements on these nodes; its id."""
        number = self._two_phases(parts)
        self.cluster.journal.others.add(number)
        return number

    def local(self, node: int) -> None:
        self._run(self.connections[node], "BEGIN", *self._within(node), "COMMIT")
        self._counted(node)

    def xa_of_one_node(self, node: int, *, one_phase: bool) -> None:
        """In one phase, by the coordinator; or by somebody else, without a TSO."""
        number = self.cluster.transaction_id()
        prefix = "drds" if one_phase else "xa"
        xid = f"'{prefix}-{number:x}@{node:x}','G{node}@0000',1"
        # Until it has ended: whoever finds it prepared rolls it back, as no commit log has it.
        if not one_phase:
            self.open = number, [node]
        prepare = () if one_phase else (f"XA PREPARE {xid}",)
        commit = f"XA COMMIT {xid}{' ONE PHASE' if one_phase else ''}"
        texts = (f"XA START {xid}", *self._within(node), f"XA END {xid}", *prepare, commit)
        self._run(self.connections[node], *texts)
        self.open = None
        self._counted(node)

    def _counted(self, node: int) -> None:
        with self.cluster._lock:
            self.cluster.journal.local[node] += 1

    def _within(self, node: int) -> list[str]:
        amount = self.random.randrange(1, 50)
        # Rows in one order, so that nobody waits for one who waits for him.
        chosen = sorted(self.random.sample(range(ACCOUNTS), 2))
        a, b = (self.cluster.account(node, number) for number in chosen)
        return [
            f"UPDATE bank.accounts_{node} SET balance = balance {sign} {amount} WHERE id = {i}"
            for sign, i in (("-", a), ("+", b))
        ]

    def _account(self, node: int) -> int:
        return self.cluster.account(node, self.random.randrange(ACCOUNTS))

    def _fate(self) -> str:
        chosen = self.random.random()
        if chosen < 0.03:
            return "rollback"
        if chosen < 0.045:
            return self.random.choice(("prepared", "logged", "half"))
        return ""

    def _two_phases(
        self, parts: list[tuple[int, list[str]]], die: str = "", *, heartbeat: bool = False
    ) -> int:
        number = self.cluster.transaction_id()
        if heartbeat:
            self.cluster.journal.heartbeats.add(number)
        self.open = number, [node for node, _ in parts]
        self._in_two_phases(number, parts, die)
        self.open = None
        return number

    def _in_two_phases(self, number: int, parts: list[tuple[int, list[str]]], die: str) -> None:
        xids = {n: f"'drds-{number:x}@{parts[0][0]:x}','G{n}@0000',1" for n, _ in parts}
        for node, texts in parts:
            xid = xids[node]
            self._run(
                self.connections[node],
                *(f"XA START {xid}", *texts, f"XA END {xid}", f"XA PREPARE {xid}"),
            )
        if die == "rollback":
            for node, _ in parts:
                self._run(self.connections[node], f"XA ROLLBACK {xids[node]}")
            self.cluster.journal.rolled_back += 1
            return
        if die == "prepared":
            self._die(number, parts)
        tso = self.cluster.tso.next()
        nodes = [node for node, _ in parts]
        self._log(number, tso, nodes, nodes if die != "logged" else nodes[:1])
        if die == "logged":
            self._journal(number, tso, nodes)
            self._die(number, parts)
        for i, node in enumerate(self.random.sample(nodes, len(nodes))):
            if die == "half" and i:
                self._journal(number, tso, nodes)
                self._die(number, parts)
            self._commit(self.connections[node], node, xids[node], tso)
        self._journal(number, tso, nodes)

    def _die(self, number: int, parts: list[tuple[int, list[str]]]) -> NoReturn:
        self.cluster.abandoned[number] = [node for node, _ in parts]
        raise InDoubt

    def _journal(self, number: int, tso: int, nodes: list[int]) -> None:
        with self.cluster._lock:
            self.cluster.journal.distributed[number] = tso, nodes

    def _log(self, number: int, tso: int, nodes: list[int], on: list[int]) -> None:
        for node in on:
            self._run(
                self.others[node],
                "INSERT IGNORE INTO __cdc__.__cdc_commit_log__ VALUES "
                f"({number}, {tso}, {len(nodes)})",
            )

    def _commit(self, connection: Connection, node: int, xid: str, tso: int) -> None:
        seconds, ms = divmod(tso >> 22, 1000)
        thread = _MARK | ms << 21 | (tso & ((1 << 22) - 1)) >> 1
        before = f"SET timestamp = {seconds}, pseudo_thread_id = {thread}"
        if self.mysql[node]:
            before += f", original_commit_timestamp = {tso >> 8}"
        own = connection.thread_id()
        behind = f"SET timestamp = DEFAULT, pseudo_thread_id = {own}"
        self._run(connection, before, f"XA COMMIT {xid}", behind)

    def _run(self, connection: Connection, *texts: str) -> None:
        """Several at once are for connections that take them."""
        with connection.cursor() as cursor:
            cursor.execute("; ".join(texts))
            while cursor.nextset():
                pass

    # --- recovery --------------------------------------------------------------------------------

    def recover(self) -> None:
        """Decide what dead sessions left: committed where any node's commit log has it."""
        for number in list(self.cluster.abandoned):
            nodes = self.cluster.abandoned.pop(number, None)
            if nodes is None:
                continue
            try:
                self._decide(number, nodes)
            except pymysql.MySQLError:
                self.cluster.abandoned[number] = nodes
                raise

    def _decide(self, number: int, nodes: list[int]) -> None:
        logged = f"SELECT tso FROM __cdc__.__cdc_commit_log__ WHERE transaction_id = {number}"
        found = {row for n in nodes for row in self._rows(self.connections[n], logged)}
        tso = found.pop()[0] if found else 0
        if tso:
            self._log(number, tso, nodes, nodes)
            self._journal(number, tso, nodes)
        for node in nodes:
            xid = self._prepared(node, number)
            while xid is not None:
                # The server may not have seen yet that the session has gone.
                with suppress(pymysql.MySQLError):
                    if tso:
                        self._commit(self.connections[node], node, xid, tso)
                    else:
                        self._run(self.connections[node], f"XA ROLLBACK {xid}")
                xid = self._prepared(node, number)

    def _prepared(self, node: int, number: int) -> str | None:
        for format_id, length, _, data in self._rows(self.connections[node], "XA RECOVER"):
            raw = data if isinstance(data, bytes) else data.encode()
            if raw.startswith((f"drds-{number:x}@".encode(), f"xa-{number:x}@".encode())):
                return str(Xid(format_id, raw[:length], raw[length:]))
        return None

    def _rows(self, connection: Connection, text: str) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())
