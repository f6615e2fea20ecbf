"""Two real servers compared without a changefeed between them: they stand still."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cdc.coord.messages import UpstreamInfo
from cdc.source.settings import SourceSettings
from cdc.verify.catalogue import table_info
from cdc.verify.delivery import Positions, UpstreamMoment
from cdc.verify.layout import layout
from cdc.verify.pair import ServerPair
from cdc.verify.report import TableResult
from cdc.verify.running import Run, Task
from cdc.verify.sessions import TargetSession, UpstreamServers, UpstreamSession
from cdc.verify.side import Side, TableSide
from cdc.verify.table import CompareOptions, compare_table, way_of
from sink.dispatch.target import NO_RULES, TargetRouter
from sink.kafka.settings import KafkaSettings
from sink.mysql.settings import MysqlSettings
from tests.servers import Database


class Still:
    """No delivery: whatever is there has been delivered."""

    def mark(self, positions: Positions) -> UpstreamMoment:
        """Return no ts."""
        return UpstreamMoment(0, positions)

    def reach(self, positions: Positions, stop: threading.Event) -> None:
        """Wait for nothing."""

    def behind(self, schema: str, table: str) -> int:
        """Return that nothing is missing."""
        return 0

    def moved(self, schema: str, table: str, since: UpstreamMoment) -> bool:
        """Return that nothing was written."""
        return False


def upstream(database: Database) -> UpstreamInfo:
    """Return a server as a registered upstream."""
    return UpstreamInfo(name="main", uri=database.uri(), server_kind=database.kind)


def topics_compared(
    database: Database, schema: str, settings: KafkaSettings, **options: object
) -> dict[str, TableResult]:
    """Return the tables of a schema, by name, against topics, without a server between."""
    task = Task(
        lambda: UpstreamServers(upstream(database), SourceSettings()),
        Still(),
        lambda found, _: found == schema,
        True,
        CompareOptions(**options),  # type: ignore[arg-type]
        mariadb=database.kind == "mariadb",
    )
    run = Run(task)
    run.topics(settings)
    return {r.table.partition(".")[2]: r for r in run.results}


def target(database: Database) -> MysqlSettings:
    """Return a server as the target of a sink."""
    return MysqlSettings.parse(database.uri() + "/", {})


@dataclass(frozen=True)
class Two:
    """The same schema on two servers."""

    ours: Database
    theirs: Database
    schema: str

    def both(self, *statements: str) -> None:
        """Run statements in the schema of both."""
        self.ours.execute(*statements, database=self.schema)
        self.theirs.execute(*statements, database=self.schema)

    def prepare(
        self, delivery: Still | None = None, names: TargetRouter = NO_RULES, **options: int
    ) -> Run:
        """Return a run over all tables of the schema that has not begun."""
        return Run(
            Task(
                open_upstream=lambda: UpstreamServers(upstream(self.ours), SourceSettings()),
                delivery=delivery or Still(),
                matches=lambda schema, _: schema == self.schema,
                keyless=True,
                options=CompareOptions(**{"workers": 2, **options}),  # type: ignore[arg-type]
                names=names,
            )
        )

    def finish(self, run: Run) -> Run:
        """Compare; return the run with its results."""
        run.servers(lambda: TargetSession(target(self.theirs)))
        return run

    def run(self, delivery: Still | None = None, **options: int) -> Run:
        """Compare all tables of the schema; return the run with its results."""
        return self.finish(self.prepare(delivery, **options))

    def compare(self, **options: int) -> dict[str, TableResult]:
        """Compare all tables; results by the table's name."""
        return {r.table.partition(".")[2]: r for r in self.run(**options).results}

    def sides(self, name: str) -> Iterator[Side]:
        """Return a table on each server."""
        for session in (
            UpstreamSession(upstream(self.ours), SourceSettings()),
            TargetSession(target(self.theirs)),
        ):
            info = table_info(session, self.schema, name)
            assert info is not None
            yield TableSide(session, layout(info, info)[0])
            session.close()

    def one(self, name: str, by_range: bool) -> TableResult:
        """Compare one table in a way that it would perhaps not be compared in."""
        ours = UpstreamServers(upstream(self.ours), SourceSettings())
        pair = ServerPair(ours, TargetSession(target(self.theirs)), Still(), threading.Event())
        try:
            mine = table_info(pair.upstream.server(self.schema), self.schema, name)
            theirs = table_info(pair.target_server, self.schema, name)
            assert mine is not None
            assert theirs is not None
            plan, _ = layout(mine, theirs)
            assert not plan.by_range
            if by_range:
                key = tuple(replace(c, ordered=True) for c in plan.key)
                plan = replace(plan, key=key)
            result, options = TableResult(name), CompareOptions(chunk_rows=100)
            compare_table(pair, plan, way_of(pair, plan, options), options, result)
            return result
        finally:
            pair.close()
