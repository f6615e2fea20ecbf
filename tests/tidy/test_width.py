"""Prose of the pages is at most 100 characters wide; code, tables and links are as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGES = sorted([*_ROOT.glob("*.md"), *_ROOT.glob("docs/**/*.md")])
_MOST = 100
# A span of code, or what has no space, is not broken; so much text stands before it.
_WHOLE = re.compile(r"\s*(?:(?:[-*]|\d+\.) )?[^\s`]{0,12}(?:`[^`]*`|[^\s`])+")


def _too_wide(text: str) -> Iterator[tuple[int, str]]:
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        prose = not code and not line.lstrip().startswith("|")
        if prose and len(line) > _MOST and _WHOLE.fullmatch(line) is None:
            yield number, line


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_lines_of_prose_are_not_too_wide(page: Path) -> None:
    assert list(_too_wide(page.read_text())) == []


def test_what_is_too_wide_is_found() -> None:
    wide = "word " * 21
    table, code, link = f"| {wide}|", f"```\n{wide}\n```", f"- [{'x' * 120}](y)"
    assert list(_too_wide(f"{table}\n{code}\n{link}\n\n{wide}")) == [(7, wide)]
