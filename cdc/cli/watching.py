"""``--watch``: a list or a query again and again, until Ctrl-C."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from cdc.base.errors import ErrorKind, TidegateError
from cdc.base.refusals import ServerRefused
from cdc.cli import output

_EVERY_S = 2.0

_Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Show it again every 2 s; with --json a line each.")
]


def watched(show: Callable[..., None]) -> Callable[..., None]:
    """The command with ``--watch``. What passes is shown and does not end it; the first time it
    does, as without."""

    @wraps(show)
    def command(*args: Any, watch: bool = False, **named: Any) -> None:
        if not watch:
            show(*args, **named)
            return
        with output.screens(json=bool(named.get("json"))) as begin:
            begin()
            show(*args, **named)
            while True:
                time.sleep(_EVERY_S)
                begin()
                try:
                    show(*args, **named)
                except (TidegateError, ServerRefused) as e:
                    if e.kind != ErrorKind.TRANSIENT:
                        raise
                    output.error(e)

    plain = inspect.signature(show, eval_str=True)
    added = inspect.Parameter("watch", inspect.Parameter.KEYWORD_ONLY, default=False)
    parameters = [*plain.parameters.values(), added.replace(annotation=_Watch)]
    command.__signature__ = plain.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {**show.__annotations__, "watch": _Watch}
    return command
