"""The tables of DM's cases in docs/shards.md, out of the cases; run, it writes the page anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.shard_ddl.cases import CASES, Case, Outcome
from tests.shard_ddl.optimistic_cases import OPTIMISTIC_CASES

PAGE = Path(__file__).parents[2] / "docs/shards.md"
BEGIN, END = "<!-- dm cases -->", "<!-- end of dm cases -->"
OPTIMISTIC_BEGIN = "<!-- optimistic dm cases -->"
OPTIMISTIC_END = "<!-- end of optimistic dm cases -->"


def table() -> str:
    """The pessimistic cases as Markdown."""
    return _table(CASES, {})


def optimistic_table() -> str:
    """The optimistic cases as Markdown."""
    return _table(OPTIMISTIC_CASES, {Outcome.ONCE: Outcome.FOLLOWS})


def _table(cases: Sequence[Case], named: dict[Outcome, Outcome]) -> str:
    rows = (
        f"| {c.number} | {c.about} | {named.get(c.outcome, c.outcome)} | {c.runs} |" for c in cases
    )
    return "\n".join(("| case | | here | statements at the target |", "|---|---|---|---|", *rows))


if __name__ == "__main__":
    text = PAGE.read_text()
    for begin, end, made in (
        (BEGIN, END, table()),
        (OPTIMISTIC_BEGIN, OPTIMISTIC_END, optimistic_table()),
    ):
        before, after = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n{made}\n{end}{after}"
    PAGE.write_text(text)
