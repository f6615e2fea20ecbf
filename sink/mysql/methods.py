"""By which way each table's rows go, on what both sides are now; and the plan of a whole job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdc.binlog.table_map import TableMap
from cdc.rows import plan
from cdc.rows.plan import PlanSet
from cdc.schema.table import Table
from sink.contract import Entry
from sink.mysql import events
from sink.mysql.compat import reasons
from sink.mysql.connection import SinkSession, Target
from sink.mysql.errors import TargetColumnMissing, TargetIncompatible
from sink.mysql.events import ApplyPlan, apply_plan
from sink.mysql.settings import Apply, MysqlSettings
from sink.mysql.sql_choice import MethodChoice, choose
from sink.mysql.sql_facts import Facts, read_facts
from sink.mysql.sql_plan import SqlEntry, SqlPlan, sql_plan, without_sql
from sink.mysql.target import TargetTable, read_table


@dataclass(frozen=True, slots=True)
class Chosen:
    """The way of one table; ``target`` is what the target has in its place."""

    choice: MethodChoice
    target: TargetTable
    facts: Facts

    @property
    def sql(self) -> bool:
        """Whether its rows become SQL text."""
        return self.choice.method is Apply.SQL


@dataclass(frozen=True)
class MysqlPlan:
    """All tables of a job: ``plans`` to locate rows, and how each table's are written.

    ``by_sql`` bool[len(tables)]; ``sql`` is None where no table needs it.
    """

    plans: PlanSet
    rows: ApplyPlan
    sql: SqlPlan | None
    by_sql: NDArray[np.bool_]


NO_TABLES = MysqlPlan(plan.NO_TABLES, events.NO_TABLES, None, np.empty(0, np.bool_))


def chosen(
    session: SinkSession,
    tables: Iterable[tuple[Table, TableMap | None]],
    *,
    may_binlog: bool,
    upstream_mariadb: bool,
) -> list[Chosen]:
    """Compare each table with the target's and choose.

    A table comes with the TABLE_MAP of its rows where it is known. Raises TargetTableMissing; what
    ``sql_choice.choose`` raises; TargetIncompatible or TargetColumnMissing for what no SQL mends.
    """
    listed = list(tables)
    settings = session.settings
    same_family = upstream_mariadb == session.target.mariadb
    names = [settings.names.target(table.schema, table.name) for table, _ in listed]
    facts = read_facts(session, {schema for schema, _ in names})
    found = []
    read: dict[tuple[str, str], TargetTable] = {}
    for (table, stored), name in zip(listed, names, strict=True):
        if name not in read:
            read[name] = read_table(session, *name)
        target = read[name]
        if not target.transactional:
            raise TargetIncompatible(
                f"the target's engine {target.engine or '?'} has no transactions",
                object=target.name,
                hint="ALTER TABLE … ENGINE = InnoDB at the target",
            )
        differences = list(reasons(table, stored, target, same_family=same_family))
        if given := settings.given(table.schema, table.name):
            differences.insert(0, f"column {given[0][0]} is extracted from names")
        choice = choose(
            settings.apply,
            differences,
            may_binlog,
            safe_mode=settings.repeatable,
            table=table.full_name,
        )
        one = Chosen(choice, target, facts.get(name, Facts()))
        if settings.apply is Apply.AUTO:
            _has_no_say_in_triggers(one)
        if one.sql:
            _has_columns(table, target)
        found.append(one)
    return found


def job_plan(
    entries: Sequence[Entry],
    ways: Sequence[Chosen],
    settings: MysqlSettings,
    target: Target,
    before: MysqlPlan = NO_TABLES,
) -> MysqlPlan:
    """The plan of a job's tables, those of ``before`` first; the order is the plan index of runs.

    Raises ``RouteConflict`` if two of them have one name at the target.
    """
    names = settings.names
    names.check(before.plans.names | {(table.schema, table.name) for table, _, _ in entries})
    rows = apply_plan(
        [(t, stored, route, names.target(t.schema, t.name)) for t, stored, route in entries],
        target.server_id,
        before.rows,
        {
            names.target(t.schema, t.name)
            for (t, _, _), way in zip(entries, ways, strict=True)
            if not way.target.table.handle_key
        },
    )
    by_sql = np.concatenate((before.by_sql, np.array([way.sql for way in ways], np.bool_)))
    if not by_sql.any():
        return MysqlPlan(rows.plans, rows, None, by_sql)
    sql = sql_plan(
        [
            SqlEntry(
                table,
                stored,
                way.target if way.sql else None,
                way.facts,
                route,
                settings.given(table.schema, table.name),
            )
            for (table, stored, route), way in zip(entries, ways, strict=True)
        ],
        target,
        safe_mode=settings.repeatable,
        before=before.sql or without_sql(before.plans),
    )
    return MysqlPlan(sql.plans, rows, sql, by_sql)


def _has_no_say_in_triggers(one: Chosen) -> None:
    """Row images fire no trigger, SQL text fires all: which of them is not for us to choose."""
    if one.sql and one.facts.triggers:
        raise TargetIncompatible(
            f"SQL text would fire its triggers ({', '.join(one.facts.triggers)}), row images would"
            f" not, and cannot be used: {one.choice.reason}",
            object=one.target.name,
            hint="set apply=sql if they are to fire; else drop them, or make images fit",
        )


def _has_columns(table: Table, target: TargetTable) -> None:
    missing = [c.name for c in table.columns if c.name.lower() not in target.table.positions]
    missing = [n for n in missing if not table.columns[table.positions[n.lower()]].generated]
    if missing:
        raise TargetColumnMissing(
            f"the target has no column {missing[0]}",
            object=target.name,
            hint="make both sides' columns the same",
        )
