"""The table of DM's cases in docs/shards.md, out of the cases; run, it writes the page anew."""

from __future__ import annotations

from pathlib import Path

from tests.shard_ddl.cases import CASES

PAGE = Path(__file__).parents[2] / "docs/shards.md"
BEGIN, END = "<!-- dm cases -->", "<!-- end of dm cases -->"


def table() -> str:
    """The table as Markdown."""
    rows = (f"| {c.number} | {c.about} | {c.outcome} | {c.runs} |" for c in CASES)
    return "\n".join(("| case | | here | statements at the target |", "|---|---|---|---|", *rows))


if __name__ == "__main__":
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")
