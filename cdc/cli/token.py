"""``cdc cli token …``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cdc.cli import output
from cdc.cli.options import Json, client, without_none
from cdc.cli.times import seconds

app = typer.Typer(no_args_is_help=True, help="Tokens of the API, each with a role.")

Name = Annotated[str, typer.Option("--name", "-n", help="Who will have it.")]


@app.command()
def create(
    name: Name,
    role: Annotated[str, typer.Option("--role", help="viewer, operator or admin.")],
    expires: Annotated[
        str | None, typer.Option("--expires", help="90s, 15m, 12h, 30d; default: never.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a token and print it: it is not shown again."""
    span = seconds(expires) if expires else None
    body = {"name": name, "role": role} | without_none(expires_in_s=span)
    made = client().post("/tokens", body)
    if json:
        output.as_json(made)
    else:
        typer.echo(made["token"])


@app.command("list")
def list_(json: Json = False) -> None:
    """List tokens, without their secrets."""
    items: list[dict[str, Any]] = client().get("/tokens")["items"]
    if json:
        output.as_json(items)
        return
    keys = ("name", "role", "created_time", "created_by", "expires_time")
    output.table(
        ("NAME", "ROLE", "CREATED", "BY", "EXPIRES", "EXPIRED"),
        ((*(i[k] for k in keys), "yes" if i["expired"] else None) for i in items),
    )


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of token list.")],
    json: Json = False,
) -> None:
    """Make a token useless, at once and at all captures."""
    client().delete(f"/tokens/{name}")
    if json:
        output.as_json({})
    else:
        typer.echo(f"token {name} revoked")
