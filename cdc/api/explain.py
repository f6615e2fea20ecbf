"""What a configuration would do: ``filter/explain``, ``verify_table``, ``get_all_tables``."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter

from cdc.api.errors import ParameterInvalid
from cdc.api.explain_models import (
    AllTables,
    ExplainFilter,
    ExplanationOut,
    TableNameOut,
    TablesOfChangefeed,
    TableVerdict,
)
from cdc.api.requests import CreateChangefeed
from cdc.coord.feed_config import FeedConfig
from cdc.schema.session import Session
from cdc.schema.snapshot import Schema
from cdc.schema.table import Table
from cdc.server.capture import Capture
from filter.explain import REPLICATED, Explainer, Explanation, topic_of
from filter.names import table_name
from owner.eligibility import eligible, matched_tables, rule_matcher
from owner.replica_config import check


def router(capture: Capture) -> APIRouter:
    """The routes over one capture."""
    routes = APIRouter(tags=["filter"])

    @routes.post("/filter/explain")
    def explain(asked: ExplainFilter) -> ExplanationOut:
        explainer = Explainer(check(asked.replica_config), topic_of(asked.sink_uri))
        schema = _schema(capture, asked.upstream)
        if not asked.table and not asked.ddl:
            if schema is None:
                raise ParameterInvalid(
                    "nothing is asked about", hint="give table, ddl, or an upstream for its tables"
                )
            return ExplanationOut(
                subject=asked.upstream, verdict="", steps=[], tables=verdicts(explainer, schema)
            )
        if asked.ddl:
            session = schema.session if schema is not None else Session()
            found = explain_ddl(explainer, asked.ddl, session, asked.schema_name)
        else:
            name = table_name(asked.table)
            found = explainer.table(*name, _known(schema, name))
        return ExplanationOut.of(found)

    @routes.post("/verify_table")
    def verify_table(asked: CreateChangefeed) -> TablesOfChangefeed:
        config = check(asked.replica_config)
        wanted = rule_matcher(config)
        _, schema = capture.upstreams.schema_at(asked.upstream, asked.start_ts, wanted)
        return _of_changefeed(schema, config)

    @routes.post("/get_all_tables")
    def get_all_tables(asked: CreateChangefeed) -> AllTables:
        config = check(asked.replica_config)
        _, schema = capture.upstreams.schema_at(asked.upstream, asked.start_ts)
        every = [TableNameOut(database_name=s, table_name=n) for s, n in sorted(schema)]
        return AllTables(**dict(_of_changefeed(schema, config)), all_tables=every)

    return routes


def _of_changefeed(schema: Schema, config: FeedConfig) -> TablesOfChangefeed:
    able: list[TableNameOut] = []
    unable: list[TableNameOut] = []
    for table in matched_tables(schema, config):
        (able if eligible(table, config) else unable).append(_out(table))
    return TablesOfChangefeed(eligible_tables=able, ineligible_tables=unable)


def explain_ddl(
    explainer: Explainer, sql: str, server: Session, default_schema: str
) -> Explanation:
    """About a statement as a server of this kind would read it in a default database."""
    return explainer.ddl(sql, replace(server, default_schema=default_schema))


def verdicts(explainer: Explainer, schema: Schema) -> list[TableVerdict]:
    """Every table of an upstream with the rule that decides about it."""
    found = []
    for name in sorted(schema):
        said = explainer.table(*name)
        if said.verdict == REPLICATED:
            # Only then is its definition read.
            said = explainer.table(*name, schema[name])
        deciding = said.steps[0] if said.verdict == REPLICATED else said.steps[-1]
        by_about = {step.about: step.verdict for step in said.steps}
        found.append(
            TableVerdict(
                table=said.subject,
                verdict=said.verdict,
                why=deciding.why,
                place=deciding.place,
                topic=by_about.get("topic", ""),
                target=by_about.get("target", ""),
            )
        )
    return found


def _schema(capture: Capture, upstream: str) -> Schema | None:
    return capture.upstreams.schema_at(upstream, 0)[1] if upstream else None


def _known(schema: Schema | None, name: tuple[str, str]) -> Table | None:
    if schema is None:
        return None
    try:
        return schema[name]
    except KeyError:
        return None


def _out(table: Table) -> TableNameOut:
    return TableNameOut(database_name=table.schema, table_name=table.name)
