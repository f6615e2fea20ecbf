"""The cache of machine code sees every module that a kernel is made of."""

from __future__ import annotations

import ast
from pathlib import Path

import cdc.kernels
from cdc.kernels.imports import imports

_ROOT = Path(cdc.kernels.__file__).parent


def _parsed(path: Path) -> set[Path]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    parts = [name.split(".")[2:] for name in names if name.startswith("cdc.kernels.")]
    files = [
        p for part in parts for p in (_ROOT.joinpath(*part[:-1], f"{part[-1]}.py"),) if p.is_file()
    ]
    packages = [_ROOT.joinpath(*part, "__init__.py") for part in parts]
    return {*files, *(p for p in packages if p.is_file())}


def test_imports_are_those_that_python_sees() -> None:
    modules = sorted(_ROOT.rglob("*.py"))
    assert {p: set(imports(p)) for p in modules} == {p: _parsed(p) for p in modules}
    assert sum(len(imports(p)) for p in modules) > 150


def test_a_module_with_all_forms_of_imports(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import numpy, cdc.kernels.rows as r\n"
        "from cdc.kernels import (\n    crc as c,\n    fold,\n)\n"
        "def late():\n    from cdc.kernels.values.text import text\n"
        "# from cdc.kernels import index\nX = 'from cdc.kernels import stream'\n"
    )
    names = {p.relative_to(_ROOT).with_suffix("").as_posix() for p in imports(module)}
    assert names == {"rows", "crc", "fold", "values/text"}
