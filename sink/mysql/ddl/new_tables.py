"""Tables that the target does not have, from the definitions of the upstream's.

The text that the upstream prints is rewritten as a CREATE TABLE of its log is. Where a statement
has changed the table since it was printed, the text is made from the value.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pymysql

from cdc.base.errors import ErrorKind, TidegateError
from cdc.base.ids import FeedId
from cdc.base.position import stand
from cdc.base.ts import Ts
from cdc.binlog.query import StatusVariables
from cdc.schema.catalog import Catalog, Database
from cdc.schema.definition import TableDefinition
from cdc.schema.session import Session
from cdc.schema.statement import Verb
from cdc.schema.tokens import quoted
from sink.errors import SinkOptionNotSupported
from sink.mysql import ledger as rows
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.ddl import late_keys, ledger
from sink.mysql.ddl.carrying import Carrying, Owner
from sink.mysql.ddl.collations import collation_for
from sink.mysql.ddl.errors import DDLNotTranslatable, ddl_error
from sink.mysql.ddl.execution import NO_FOREIGN_KEYS, Execution
from sink.mysql.ddl.expected import expected
from sink.mysql.ddl.fresh import Fresh
from sink.mysql.ddl.given_columns import with_given
from sink.mysql.ddl.ledger import Record
from sink.mysql.ddl.printer import table_text
from sink.mysql.ddl.rewrite import Rewritten, Route, rewrite
from sink.mysql.ddl.server import TargetServer, ask
from sink.mysql.ddl.shown import databases
from sink.mysql.ddl.witness import Witness
from sink.mysql.errors import MysqlLockWait
from sink.mysql.settings import MysqlSettings
from sink.schema_change import Recorded, SchemaChange, TableName

_LOCK_WAIT_S = 30
# Texts were printed for a session in UTC, and a parent may be made behind its child.
_STATUS = StatusVariables(time_zone="+00:00", flags2=NO_FOREIGN_KEYS, sql_mode=0)


class MysqlNewTables:
    """See ``sink.new_tables.NewTables``; ``route`` gives a table its name at the target.

    Raises SinkOptionNotSupported where there is no ledger that says whether rows were delivered.
    """

    def __init__(self, settings: MysqlSettings, route: Route) -> None:
        if not settings.exactly_once:
            raise SinkOptionNotSupported(
                "create-tables needs the ledger: without it a table that was never made cannot be"
                " told from one that a change has dropped since",
                object="snapshot.create-tables",
                hint="set exactly-once=true, or make the tables at the target",
            )
        self._settings = settings
        self._route = route

    def missing(self, definitions: Iterable[TableDefinition]) -> list[TableDefinition]:
        """Those whose table the target does not have, or hides from the sink's user."""
        session = SinkSession(self._settings)
        try:
            return self._missing(session, definitions)
        finally:
            session.close()

    def check(self, definitions: Iterable[TableDefinition], session: Session) -> None:
        """Raises DDLNotTranslatable for a table that this server cannot have."""
        connection = SinkSession(self._settings)
        try:
            server = ask(connection)
        finally:
            connection.close()
        for definition in definitions:
            with _named(definition):
                made = self._made(definition)
            _creating(made, session, server, self._route, 0)

    def make(
        self,
        feed: FeedId,
        epoch: int,
        definitions: Sequence[TableDefinition],
        session: Session,
        ts: Ts,
        large: Collection[str] = (),
    ) -> None:
        """Make them under a lock that whoever does so holds."""
        fresh, execution = Fresh(self._settings), Execution(self._settings)
        try:
            self._hold(execution, feed, ts)
            begun = ledger.begun_table(fresh.get(), feed)
            left = self._to_make(fresh.get(), feed, definitions, ts, begun)
            if not left:
                return
            server = ask(fresh.get())
            there = set(databases(fresh.get()))
            owner = Owner(feed, epoch, server, self._route, _never_gone, _nobody_stops)
            for definition in left:
                name = self._target(definition)
                # Still ours: a newer epoch may have gone on, and dropped what we would make.
                ledger.begin_table(fresh.get(), feed, epoch, name)
                found = _begun(epoch, name) if name == begun else None
                if name[0] not in there:
                    self._make_database(fresh.get(), name[0], definition, server)
                    there.add(name[0])
                with _named(definition):
                    made = self._made(definition)
                    change, rewritten = _creating(made, session, server, self._route, ts)
                    Carrying(owner, fresh, execution, change, rewritten, found).make()
                    if definition.table.full_name in large:
                        late_keys.leave_out(fresh.get(), feed, epoch, name)
            ledger.end_tables(fresh.get(), feed, epoch)
        finally:
            execution.close()
            fresh.close()

    def complete(self, feed: FeedId, epoch: int, ts: Ts) -> None:
        """Under the same lock, so that it is not done twice at once."""
        fresh, execution = Fresh(self._settings), Execution(self._settings)
        try:
            self._hold(execution, feed, ts)
            late_keys.add(fresh, execution, feed, epoch)
        finally:
            execution.close()
            fresh.close()

    def _made(self, definition: TableDefinition) -> TableDefinition:
        """With the columns that rows are given out of the table's names."""
        table = definition.table
        return with_given(definition, self._settings.given(table.schema, table.name))

    def _target(self, definition: TableDefinition) -> TableName:
        return self._route(definition.table.schema, definition.table.name)

    def _missing(
        self, session: SinkSession, definitions: Iterable[TableDefinition]
    ) -> list[TableDefinition]:
        there: dict[str, frozenset[str]] = {}
        found = []
        with mapped(f"target {self._settings.address}"):
            folded = int(session.rows("SELECT @@lower_case_table_names AS m")[0]["m"]) > 0
            for definition in definitions:
                schema, name = self._target(definition)
                if folded:
                    schema, name = schema.lower(), name.lower()
                if schema not in there:
                    there[schema] = _tables_of(session, schema, folded)
                if name not in there[schema]:
                    found.append(definition)
        return found

    def _to_make(
        self,
        session: SinkSession,
        feed: FeedId,
        definitions: Sequence[TableDefinition],
        ts: Ts,
        begun: TableName | None,
    ) -> list[TableDefinition]:
        """Those that are missing or ``begun`` whose rows nobody has delivered beyond ``ts``."""
        rows.create(session)
        stands = [stand(at) for at in rows.delivered(session, feed).values()]
        left: dict[TableName, TableDefinition] = {}
        half = [d for d in definitions if self._target(d) == begun]
        for definition in (*half, *self._missing(session, definitions)):
            name = definition.table.full_name.lower()
            if not any(s.of(name).ts >= ts for s in stands):
                # Several tables may become one, which the first of them makes.
                left.setdefault(self._target(definition), definition)
        return list(left.values())

    def _make_database(
        self, session: SinkSession, name: str, definition: TableDefinition, server: TargetServer
    ) -> None:
        with _named(definition):
            collation = collation_for(definition.collation, definition.charset, server)
            sql = (
                f"CREATE DATABASE IF NOT EXISTS {quoted(name)}"
                f" CHARACTER SET {definition.charset} COLLATE {collation}"
            )
            try:
                session.run(sql)
            except pymysql.err.Error as error:
                raise ddl_error(error, f"database {name}", "", sql) from None

    def _hold(self, execution: Execution, feed: FeedId, ts: Ts) -> None:
        wait_s = min(_LOCK_WAIT_S, max(1, int(self._settings.read_timeout / 2)))
        with mapped(f"target {self._settings.address}"):
            if not execution.hold(ledger.lock_name(feed, ts), wait_s):
                raise MysqlLockWait(
                    "another process makes the tables",
                    object=f"target {self._settings.address}",
                    hint="it is waited for",
                )


def _begun(epoch: int, name: TableName) -> Record:
    """That a table which was not there was being made: it may lack what its words do not say."""
    return Record(Recorded.EXECUTING, epoch, witness=Witness({name: ""}).to_json())


def _tables_of(session: SinkSession, schema: str, folded: bool) -> frozenset[str]:
    """Whatever has a table's name in a database of the target; PyMySQL's errors pass."""
    found = session.rows(
        "SELECT table_name AS n FROM information_schema.tables WHERE table_schema = %s", schema
    )
    names = (str(row["n"]) for row in found)
    return frozenset(name.lower() if folded else name for name in names)


def _creating(
    definition: TableDefinition, session: Session, server: TargetServer, route: Route, ts: Ts
) -> tuple[SchemaChange, Rewritten]:
    """The creation of a table as a change of the log, and what the target is to be sent."""
    table = definition.table
    name = (table.schema, table.name)
    with _named(definition):
        sql = definition.text or _text_of(definition, session, server, route(*name))
        before = Catalog(lower_case_table_names=session.lower_case_table_names)
        before = before.with_database(
            Database(table.schema, definition.charset, definition.collation)
        )
        change = SchemaChange(
            ts=ts,
            sql=sql,
            kind="create table",
            tables=(name,),
            schemas=(),
            replicated=(name,),
            # A printed TIMESTAMP says all of itself.
            session=replace(
                session, default_schema=table.schema, explicit_defaults_for_timestamp=True
            ),
            status=_STATUS,
            time_s=int(time.time()),
            before=before,
            after=before.with_table(table),
        )
        if not definition.text:
            return change, Rewritten(Verb.CREATE, (sql,), ((name, route(*name)),))
        try:
            return change, rewrite(change, server, route)
        except (LookupError, ValueError) as error:
            raise DDLNotTranslatable(f"its definition cannot be rewritten ({error!r})") from error


def _text_of(
    definition: TableDefinition, session: Session, server: TargetServer, target: TableName
) -> str:
    """CREATE TABLE from the value; raises DDLNotTranslatable where that says too little."""
    table = expected(definition.table, server, source_mariadb=session.mariadb)
    text = table and table_text(table, target, server)
    if not text or definition.table.foreign_keys:
        raise DDLNotTranslatable(
            "a statement has changed it since its definition was read, and what is known of it does"
            " not say its foreign keys or its versions"
        )
    return text


@contextmanager
def _named(definition: TableDefinition) -> Iterator[None]:
    """Say of errors which table they are about; of definite ones what to do."""
    try:
        yield
    except TidegateError as error:
        error.object = error.object or definition.table.full_name
        if error.kind is ErrorKind.DEFINITE:
            error.hint = "make the table at the target yourself: what is there is left alone"
        raise


def _never_gone(connection: int) -> bool:
    """The socket itself says whether a connection is gone."""
    return True


def _nobody_stops() -> bool:
    """Whoever makes tables waits for them."""
    return False
