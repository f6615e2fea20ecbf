"""``cdc filter explain``: which rule decided, on which line of the file, and why."""

from __future__ import annotations

import json as json_
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cdc.api.explain_models import ExplanationOut
from cdc.base.errors import InvalidError, TidegateError
from cdc.base.refusals import ServerRefused
from cdc.cli import output
from cdc.cli.config_file import ConfigFile, read_config
from cdc.cli.options import Json, OfServer, access, client
from cdc.cli.tables_file import read_tables
from cdc.schema.session import Session
from filter.explain import Explainer, Explanation, topic_of
from filter.names import table_name
from owner.replica_config import check

app = typer.Typer(
    cls=OfServer,
    no_args_is_help=True,
    help="Look at what a changefeed's filter does.",
    callback=access,
)


class NothingAsked(InvalidError):
    """``cdc filter explain`` without anything that could be explained."""

    code = "TG:ErrFilterNothingAsked"


@app.command()
def explain(
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file with the replica configuration.")
    ] = None,
    table: Annotated[str, typer.Option(help="About this table: shop.orders.")] = "",
    ddl: Annotated[str, typer.Option(help="About this statement.")] = "",
    schema: Annotated[str, typer.Option(help="Default database of the statement.")] = "",
    row: Annotated[
        str, typer.Option(help="About a row of --table: JSON, {column: value} or {old:, new:}.")
    ] = "",
    tables: Annotated[
        Path | None, typer.Option(help="File of CREATE TABLE statements, for keys and columns.")
    ] = None,
    sink_uri: Annotated[str, typer.Option("--sink-uri", help="For its topic.")] = "",
    mariadb: Annotated[
        bool, typer.Option("--mariadb", help="Statements are MariaDB's, not MySQL's.")
    ] = False,
    upstream: Annotated[
        str, typer.Option("--upstream", "-u", help="Ask a server about this upstream's tables.")
    ] = "",
    json: Json = False,
) -> None:
    """Say which rule decides about a table, a statement or a row, and why.

    Works without a server; with --upstream a running one is asked, for all its tables if nothing
    else is given.
    """
    file = read_config(config)
    try:
        if upstream:
            body = {"replica_config": file.values, "sink_uri": sink_uri, "upstream": upstream}
            body |= {"table": table, "ddl": ddl, "schema": schema}
            answer = client().post("/filter/explain", body)
        else:
            said = _offline(file, table, ddl, schema, row, tables, sink_uri, mariadb)
            answer = ExplanationOut.of(said).model_dump()
    except TidegateError as e:
        raise _placed(e, file) from None
    except ServerRefused as e:
        raise ServerRefused(
            e.code, _with_line(e.message, file.where(e.object)), e.hint, kind=e.kind
        ) from None
    _print(answer, file, json)


def _offline(
    file: ConfigFile,
    table: str,
    ddl: str,
    schema: str,
    row: str,
    tables: Path | None,
    sink_uri: str,
    mariadb: bool,
) -> Explanation:
    config = check(file.values)
    explainer = Explainer(config, topic_of(sink_uri))
    session = Session(mariadb=mariadb, version=(11, 4, 0) if mariadb else (8, 4, 0))
    known = {} if tables is None else read_tables(tables, session)
    if ddl:
        return explainer.ddl(ddl, replace(session, default_schema=schema))
    if not table:
        raise NothingAsked(
            "nothing is asked about", hint="give --table, --ddl, or --upstream for all its tables"
        )
    name = table_name(table)
    definition = known.get(name)
    if row:
        if definition is None:
            raise NothingAsked(
                f"the definition of {table} is not known",
                object=table,
                hint="give a file with its CREATE TABLE statement: --tables FILE",
            )
        from filter.row import explain_row

        return explain_row(config, session, definition, _object(row))
    return explainer.table(*name, definition)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json_.loads(text)
    except ValueError as e:
        raise NothingAsked(f"--row is not JSON: {e}", hint="""for example '{"id": 1}'""") from None
    if not isinstance(found, dict):
        raise NothingAsked("--row is not a JSON object", hint="""for example '{"id": 1}'""")
    return found


def _placed(error: TidegateError, file: ConfigFile) -> TidegateError:
    """The error with the line of the file that it is about."""
    where = file.where(error.object) or file.where(error.position)
    if not where:
        return error
    return type(error)(error.message, object=error.object, position=where, hint=error.hint)


def _with_line(message: str, where: str) -> str:
    return f"{message} ({where})" if where else message


def _print(answer: dict[str, Any], file: ConfigFile, json: bool) -> None:
    for step in (*answer["steps"], *(answer["tables"] or ())):
        step["line"] = file.where(step["place"])
    if json:
        output.as_json(answer)
        return
    if answer["tables"] is not None:
        columns = ("TABLE", "VERDICT", "WHY", "RULE", "TOPIC", "TARGET")
        rows = (
            (t["table"], t["verdict"], t["why"], t["line"] or t["place"], t["topic"], t["target"])
            for t in answer["tables"]
        )
        output.table(columns, rows)
        return
    typer.echo(f"{answer['subject']}: {answer['verdict']}")
    output.table(
        ("ABOUT", "VERDICT", "WHY", "RULE"),
        ((s["about"], s["verdict"], s["why"], s["line"] or s["place"]) for s in answer["steps"]),
    )
