"""One change on its way: what the target shows, what remains, and that it has become so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pymysql

from cdc.base.errors import TidegateError
from cdc.base.ids import FeedId
from cdc.base.redaction import user_data
from cdc.schema.shown import shown as shown_sql
from cdc.schema.statement import Verb
from cdc.schema.table import Table
from cdc.schema.tokens import quoted
from sink.dispatch.target import RoutingFailed
from sink.mysql.connection import SinkSession
from sink.mysql.ddl import ledger
from sink.mysql.ddl.decide import Do, SeenTable, TablePlace, decide, place, rest_of_renames
from sink.mysql.ddl.errors import DDLInterrupted, DDLOutcomeUnknown, DDLTargetDiffers, ddl_error
from sink.mysql.ddl.execution import Execution, lost
from sink.mysql.ddl.expected import expected
from sink.mysql.ddl.facets import ORDER, Key, Match, changed, compare, differing, facts
from sink.mysql.ddl.fresh import Fresh
from sink.mysql.ddl.ledger import Record
from sink.mysql.ddl.printer import repairing, table_text
from sink.mysql.ddl.rewrite import Rewritten, Route
from sink.mysql.ddl.server import TargetServer
from sink.mysql.ddl.shown import Shown, databases, show
from sink.mysql.ddl.witness import Marker, Witness
from sink.schema_change import Recorded, SchemaChange, TableName

_log = logging.getLogger(__name__)
# What the ledger keeps of a statement.
_KEPT_SQL = 100_000


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be sent, and the target as it is before."""

    statements: tuple[str, ...]
    witness: Witness
    marker: Marker | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """Who carries changes out, and where: ``alive`` and ``stopped`` are those of Execution.run."""

    feed: FeedId
    epoch: int
    server: TargetServer
    route: Route
    alive: Callable[[int], bool]
    stopped: Callable[[], bool]


class Carrying:
    """Carries one change out; ``execution`` holds its lock. PyMySQL's errors of reading pass."""

    def __init__(
        self,
        owner: Owner,
        fresh: Fresh,
        execution: Execution,
        change: SchemaChange,
        rewritten: Rewritten,
        found: Record | None,
    ) -> None:
        self._owner = owner
        self._fresh = fresh
        self._execution = execution
        self._change = change
        self._rewritten = rewritten
        self._found = found
        self._shown: Mapping[TableName, Shown] = {}
        self._across = change.session.mariadb != owner.server.mariadb

    def _default(self) -> str:
        """The target's name of the statement's default database, if there is one."""
        try:
            return self._owner.route(self._change.session.default_schema, "")[0]
        except RoutingFailed:
            # Its tables go to several; all names of the statement say which.
            return ""

    @property
    def _session(self) -> SinkSession:
        return self._fresh.get()

    def run(self) -> None:
        """Do what remains and record it as done."""
        work = self._work()
        if work.statements or self._found is not None:
            default = self._default()
            there = default in databases(self._session)
            self._execution.prepare(self._change, self._owner.server, default if there else "")
            if work.statements:
                self._send(work)
            self._settle()
        sql = "; ".join(self._texts(work)) or self._change.sql
        ts, state = self._change.ts, Recorded.DONE
        ledger.end(self._session, self._owner.feed, self._owner.epoch, ts, state, sql)
        if work.marker is not None:
            work.marker.remove(self._session)

    def make(self) -> None:
        """Do what remains and record nothing: for what is there or not, and is not made again."""
        work = self._work()
        if not work.statements and self._found is None:
            return
        default = self._default()
        there = default in databases(self._session)
        self._execution.prepare(self._change, self._owner.server, default if there else "")
        for sql in work.statements:
            self._run(sql)
        self._settle()

    def _texts(self, work: Work) -> list[str]:
        return [shown_sql(s, self._change.session, _KEPT_SQL) for s in work.statements]

    # Sending.

    def _send(self, work: Work) -> None:
        if work.marker is not None:
            work.marker.make(self._session)
        owner, ts = self._owner, self._change.ts
        ledger.begin(
            self._session,
            owner.feed,
            owner.epoch,
            ts,
            connection=self._execution.id,
            sql="; ".join(self._texts(work)),
            witness=work.witness.to_json(),
        )
        for i, sql in enumerate(work.statements):
            if i:
                # Still ours.
                ledger.record(self._session, owner.feed, owner.epoch, ts)
            self._run(sql)

    def _run(self, sql: str) -> None:
        owner = self._owner
        note = f"/* tidegate {owner.feed} ts {self._change.ts} */ "
        try:
            self._execution.run(note + sql, owner.alive, owner.stopped)
        except (pymysql.err.Error, OSError, EOFError) as error:
            raise self._in_vain(error, sql) from None

    def _in_vain(self, error: BaseException, sql: str) -> TidegateError:
        at, shown = f"ts {self._change.ts}", shown_sql(sql, self._change.session)
        if lost(error):
            return DDLInterrupted(
                f"the connection was lost while the target ran: {shown}",
                object=object_of(self._change),
                position=at,
                hint="what it did is looked at, and the rest is done",
            )
        return ddl_error(error, object_of(self._change), at, shown)

    # What remains.

    def _work(self) -> Work:
        rewritten = self._rewritten
        shown = {target: show(self._session, *target) for _, target in rewritten.tables}
        self._shown = shown if self._found is None else {}
        witness = Witness.of(self._session, shown, exchanging=not rewritten.repeatable)
        if rewritten.verb is Verb.RENAME:
            return self._renames(shown, witness)
        if rewritten.verb is Verb.DATABASE:
            return Work(self._database(), witness)
        if rewritten.verb is Verb.DROP:
            left = [t for _, t in rewritten.tables if shown[t].table is not None]
            text = "DROP TABLE " + ", ".join(quoted(*t) for t in left)
            return Work((text,) if left else (), witness)
        if not rewritten.statements:
            return Work((), witness)
        seen = self._seen(shown)
        again = rewritten.repeatable
        verdict = decide(seen, recorded=self._found is not None, repeatable=again)
        if verdict is Do.ASK and self._found is not None:
            verdict = self._exchanged(witness, self._found)
        if verdict is Do.DIFFERS and not self._half_translated(seen):
            raise self._differs(seen)
        if verdict is not Do.RUN:
            return Work((), witness)
        return Work(self._by_value() or rewritten.statements, witness)

    def _by_value(self) -> tuple[str, ...]:
        """CREATE TABLE … LIKE of a table that the target does not have."""
        model = self._rewritten.model
        if model is None or show(self._session, *model).table is not None:
            return ()
        name, target = self._rewritten.tables[0]
        after = self._sides(name)[1]
        escapes = not self._change.session.no_backslash_escapes
        if after is None:
            return ()
        text = table_text(after, target, self._owner.server, backslash=escapes)
        return () if text is None else (*self._rewritten.statements[:-1], text)

    def _seen(self, shown: Mapping[TableName, Shown]) -> list[SeenTable]:
        seen = []
        old = Witness.from_json(self._found.witness) if self._found is not None else None
        for name, target in self._rewritten.tables:
            before, after = self._sides(name)
            there = shown[target]
            creating = self._rewritten.verb is Verb.CREATE
            any_order = self._change.any_order
            where, lines = place(before, after, there.table, creating=creating, any_order=any_order)
            moved = None if old is None else old.texts.get(target) != there.digest
            seen.append(
                SeenTable(where, moved, tuple(f"{'.'.join(target)}: {line}" for line in lines))
            )
        return seen

    def _sides(self, name: TableName) -> tuple[Table | None, Table | None]:
        """Before and after, as the target shows them."""
        server, source = self._owner.server, self._change.session.mariadb
        before, after = self._change.before.table(*name), self._change.after.table(*name)
        return (
            expected(before, server, source_mariadb=source),
            expected(after, server, source_mariadb=source),
        )

    def _half_translated(self, seen: Iterable[SeenTable]) -> bool:
        """Between the families a crash may come before what words alone do not say."""
        return self._across and all(one.moved for one in seen if one.place is TablePlace.OTHER)

    def _exchanged(self, now: Witness, found: Record) -> Do:
        old = Witness.from_json(found.witness)
        if not old.ids or not now.ids:
            raise DDLOutcomeUnknown(
                "whether partition and table were exchanged cannot be seen",
                object=object_of(self._change),
                position=f"ts {self._change.ts}",
                hint="GRANT PROCESS ON *.* to the sink's user for the next time; now look at the"
                " rows, exchange them by hand if they are not, and `cdc cli ddl skip` it",
            )
        return Do.RUN if old.ids == now.ids else Do.RECORD

    def _differs(self, seen: Iterable[SeenTable]) -> DDLTargetDiffers:
        lines = [line for one in seen for line in one.lines]
        places = ", ".join(str(one.place) for one in seen)
        sql = shown_sql(self._change.sql, self._change.session)
        return DDLTargetDiffers(
            "the target fits neither the schema before the statement nor the one behind it: "
            f"{'; '.join(lines) or places}; statement: {user_data(sql)}",
            object=object_of(self._change),
            position=f"ts {self._change.ts}",
            hint="make the target's table as the upstream's was before the statement, and resume",
        )

    def _renames(self, shown: Mapping[TableName, Shown], witness: Witness) -> Work:
        pairs = self._rewritten.renames
        before = {target: self._sides(name)[0] for name, target in self._rewritten.tables}
        rest = rest_of_renames(pairs, before, {n: s.table for n, s in shown.items()})
        marker = None
        start = rest.start
        if not rest.sure:
            marker = Marker(self._owner.feed, self._change.ts)
            start = len(pairs) if marker.moved(self._session) else 0
        if start is None:
            there = ", ".join(".".join(n) for n, s in shown.items() if s.table is not None)
            line = f"of the tables renamed the target has {there or 'none'}"
            raise self._differs([SeenTable(TablePlace.OTHER, None, (line,))])
        left = [f"{quoted(*old)} TO {quoted(*new)}" for old, new in pairs[start:]]
        if left and marker is not None:
            left.append(marker.clause)
        return Work((f"RENAME TABLE {', '.join(left)}",) if left else (), witness, marker)

    def _database(self) -> tuple[str, ...]:
        statements = self._rewritten.statements
        there = self._rewritten.schema in databases(self._session)
        made = [s for s in statements if s.startswith("CREATE")]
        if there and made and len(statements) == 1:
            # It is there already: what remains is its character set.
            return (f"ALTER{made[0].removeprefix('CREATE')}",)
        return statements

    # What has become of it.

    def _settle(self) -> None:
        """See that the target has become what the upstream has.

        Between the families the same words may mean another thing: then the target's columns and
        keys are made so by their values.
        """
        for name, target in self._rewritten.tables:
            for attempt in (1, 2):
                keys, after, there = self._differing(name, target)
                if not keys:
                    break
                sql = self._repair(target, keys, after, there) if attempt == 1 else ""
                if not sql:
                    self._unsettled(target, after, there, keys)
                    break
                self._run(sql)

    def _differing(
        self, name: TableName, target: TableName
    ) -> tuple[frozenset[Key], Table | None, Table | None]:
        """What the statement changed and the target shows otherwise."""
        before, after = self._sides(name)
        verb = self._rewritten.verb
        if after is None or verb in (Verb.RENAME, Verb.DROP, Verb.TRUNCATE):
            return frozenset(), None, None
        if before is None and verb is Verb.ALTER:
            # It came by RENAME TO, and only what else has changed is looked at.
            before = self._sides(self._rewritten.tables[0][0])[0]
        there = show(self._session, *target).table
        keys = changed(facts(before), facts(after))
        was = self._shown.get(target)
        if self._across and was is not None and (was.table is not None or verb is Verb.CREATE):
            # What the target's server has changed beside it.
            beside = changed(facts(was.table), facts(there))
            keys |= {key for key in beside if key[0] not in ("option", "engine")}
        if self._change.any_order:
            keys -= {ORDER}
        match, found = differing(facts(after), facts(there), keys)
        return frozenset(found if match is Match.NO else ()), after, there

    def _repair(
        self, target: TableName, keys: frozenset[Key], after: Table | None, there: Table | None
    ) -> str:
        if not self._across or after is None or there is None:
            return ""
        escapes = not self._change.session.no_backslash_escapes
        actions = repairing(after, there, keys, self._owner.server, backslash=escapes)
        return f"ALTER TABLE {quoted(*target)} {', '.join(actions)}" if actions else ""

    def _unsettled(
        self, target: TableName, after: Table | None, there: Table | None, keys: frozenset[Key]
    ) -> None:
        found = compare(facts(after), facts(there), keys)[1]
        lines = tuple(f"{'.'.join(target)}: {line}" for line in found)
        if self._across:
            raise self._differs([SeenTable(TablePlace.OTHER, None, lines)])
        _log.warning("ddl at ts %d: not as upstream: %s", self._change.ts, "; ".join(lines))


def object_of(change: SchemaChange) -> str:
    """What a change is about, for errors."""
    names = [".".join(name) for name in change.replicated or change.tables] or list(change.schemas)
    return ", ".join(names)
