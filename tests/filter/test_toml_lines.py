"""Lines of a configuration file, against tomllib's reading of the same text."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from cdc.cli.toml_lines import line_of, place, value_lines

CONFIGS = Path(__file__).parents[2] / "configs"

FULL = '''# a comment with [brackets] and = signs
case-sensitive = true
"quoted key" = 'literal # no comment' # a comment
a.b.'c.d' = 1979-05-27T07:32:00Z

[filter]  # rules
rules = [
  "shop.*",     # first, "quoted"
  '!shop.tmp_*', "x.[a]",
  """multi
line, ] "" text""",
  # commented = "out"
  \'\'\'literal
]\'\'\',
]
ignore_txn_start_ts = [1, 2,
  0x10]

[[filter.event-filters]]
matcher = ["a.b"]
ignore-sql = ["^drop \\" ]", "x"]

[[filter.event-filters]]
matcher = [
  "c.d",
]
[sink.kafka-config]
empty = {}
none = []
[sink]
dispatchers = [
  { matcher = ["m.n", "o.p"], partition = "index-value", index = "}" },
  { matcher = [
    "q.*"], topic = "t" } ]
[[sink.column-selectors.deep]]
x = inf
[sink.column-selectors.deep.sub]
y = """a"""""
[[sink.column-selectors.deep]]
[sink.column-selectors.deep.sub]
y = 2
'''


def paths(value: Any, path: tuple[str | int, ...] = ()) -> set[str]:
    found = {place(path)} if path else set()
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        found |= paths(inner, (*path, key))
    return found


@pytest.mark.parametrize(
    "text",
    [FULL, FULL.replace("\n", "\r\n"), "", "a=1", *(p.read_text() for p in CONFIGS.glob("*.toml"))],
)
def test_every_value_has_a_line(text: str) -> None:
    # Array elements that hold tables, and parents that only appear in headers, need no own line.
    given = paths(tomllib.loads(text))
    lines = value_lines(text)
    assert set(lines) <= given
    leaves = {p for p in given if not any(q.startswith((f"{p}.", f"{p}[")) for q in given)}
    assert leaves <= set(lines)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("case-sensitive", "case-sensitive = true"),
        ("quoted key", '"quoted key"'),
        ("filter", "[filter]"),
        ("filter.rules", "rules = ["),
        ("filter.rules[0]", '"shop.*"'),
        ("filter.rules[1]", "'!shop.tmp_*'"),
        ("filter.rules[2]", '"x.[a]"'),
        ("filter.rules[3]", '"""multi'),
        ("filter.rules[4]", "'''literal"),
        ("filter.ignore-txn-start-ts[2]", "0x10"),
        ("filter.event-filters[0].ignore-sql[1]", "^drop"),
        ("filter.event-filters[1]", "[[filter.event-filters]]"),
        ("filter.event-filters[1].matcher[0]", '"c.d"'),
        ("sink.dispatchers[0].index", "index = "),
        ("sink.dispatchers[1].topic", 'topic = "t"'),
        ("sink.dispatchers[0].matcher[1]", "o.p"),
    ],
)
def test_the_line_holds_the_value(where: str, words: str) -> None:
    line = value_lines(FULL)[where]
    assert words in FULL.splitlines()[line - 1]


def test_the_second_of_two_tables_is_another() -> None:
    lines = value_lines(FULL)
    first, second = (lines[f"sink.column-selectors.deep[{i}].sub.y"] for i in (0, 1))
    assert FULL.splitlines()[first - 1].startswith('y = """a')
    assert FULL.splitlines()[second - 1] == "y = 2"


def test_the_nearest_part_that_is_there() -> None:
    lines = value_lines(FULL)
    assert line_of(lines, "filter.rules[9]") == lines["filter.rules"]
    assert line_of(lines, "sink.dispatchers[0].target-table") == lines["sink.dispatchers[0]"]
    assert line_of(lines, "nothing.here") is None
    assert line_of(lines, "") is None
