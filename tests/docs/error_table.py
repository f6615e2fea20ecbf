"""The table of error codes in ``docs/errors.md``, made from the classes themselves.

``python -m tests.docs.error_table`` writes it anew.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from cdc.base.errors import ErrorKind, TidegateError

PAGE = Path(__file__).parents[2] / "docs/errors.md"
BEGIN, END = "<!-- codes -->", "<!-- end of codes -->"
_PACKAGES = ("cdc", "owner", "processor", "filter", "sink")
_PLACES = {
    "cdc.api": "API",
    "cdc.base": "any",
    "cdc.binlog": "binlog",
    "cdc.changelog": "change log",
    "cdc.cli": "command line",
    "cdc.coord": "store",
    "cdc.kernels": "kernels",
    "cdc.logical": "cluster",
    "cdc.merge": "cluster",
    "cdc.rows": "rows",
    "cdc.schema": "schema",
    "cdc.server": "server",
    "cdc.snapshot": "row snapshot",
    "cdc.source": "upstream",
    "cdc.verify": "verification",
    "filter": "filter",
    "owner": "changefeed",
    "processor": "delivery",
    "sink": "sink",
}


def classes() -> list[type[TidegateError]]:
    """Every error class of the product that has a code of its own, by code."""
    for package in _PACKAGES:
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found: dict[str, type[TidegateError]] = {}
    waiting: list[type[TidegateError]] = [TidegateError]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if "code" in cls.__dict__ and cls.__module__.split(".")[0] in _PACKAGES:
            found[cls.code] = cls
    return [found[code] for code in sorted(found)]


def _place(cls: type[TidegateError]) -> str:
    return next(text for name, text in _PLACES.items() if f"{cls.__module__}.".startswith(name))


def _meaning(cls: type[TidegateError]) -> str:
    first = (cls.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(first.replace("``", "`").split()).replace("|", "\\|")


def table() -> str:
    """A Markdown table for each kind."""
    found = classes()
    parts = []
    for kind in ErrorKind:
        rows = [f"| `{c.code}` | {_place(c)} | {_meaning(c)} |" for c in found if c.kind is kind]
        parts.append(f"### {kind}\n\n| code | where | what |\n| --- | --- | --- |\n")
        parts.append("\n".join(rows) + "\n\n")
    return "".join(parts).rstrip() + "\n"


def write() -> None:
    """Put the table between the marks of the page."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n{END}{after}")


if __name__ == "__main__":
    write()
