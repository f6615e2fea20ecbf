"""The words of GLOSSARY.md are those of the code."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("cdc", "owner", "processor", "filter", "sink")
_ROW = re.compile(r"^\| (?!word \|)(?!---)([^|]+) \| ([^|]+) \|([^|]*)\|$", re.MULTILINE)
_NAME = re.compile(r"`((?:cdc|owner|processor|filter|sink)\.[\w.]+)`")
# Names that two classes still share. A new pair is refused; one that is gone leaves the list.
_SHARED = frozenset(("Cursor", "DeliverState", "Dialect", "Kind", "Message", "Parts", "Route"))


def _sections() -> list[list[tuple[str, str, str]]]:
    text = (_ROOT / "GLOSSARY.md").read_text()
    return [_ROW.findall(section) for section in text.split("\n## ")[1:]]


def _rows() -> list[tuple[str, str, str]]:
    return [row for section in _sections() for row in section]


def _exists(name: str) -> bool:
    parts = name.split(".")
    path = _ROOT.joinpath(*parts)
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = _ROOT.joinpath(*parts[:-1]).with_suffix(".py")
    return module.is_file() and parts[-1] in _defined(module)


def _defined(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_each_word_stands_once_in_the_order_of_the_alphabet() -> None:
    words = [word for word, _, _ in _rows()]
    assert len(words) > 50
    assert len(set(words)) == len(words)
    for section in _sections():
        listed = [word.lower() for word, _, _ in section]
        assert listed == sorted(listed)


def test_what_is_named_exists() -> None:
    names = [name for _, _, where in _rows() for name in _NAME.findall(where)]
    assert len(names) > 30
    assert [name for name in names if not _exists(name)] == []


@pytest.mark.parametrize("name", ["cdc.base.ts.Tso", "cdc.tso", "sink.contract.NoSuch"])
def test_what_is_not_there_is_noticed(name: str) -> None:
    assert not _exists(name)


def test_every_word_of_the_design_is_explained() -> None:
    explained = {word for word, _, _ in _rows()}
    # Of ``shared/design.md`` §2, those that stand in the product today.
    wanted = {"upstream", "node", "capture", "owner", "processor", "commit ts", "resolved ts",
              "checkpoint ts", "barrier ts", "window", "run", "ledger"}  # fmt: skip
    assert wanted <= explained


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(_ROOT)))
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert {n: p for n, p in shared.items() if n not in _SHARED} == {}
    assert sorted(_SHARED - set(shared)) == []
