"""Which kernel modules a kernel module is made of."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parent
_PACKAGE = "cdc.kernels"
_IMPORT = re.compile(
    r"^[ \t]*(?:from +([\w.]+) +import +(\([^)]*\)|.*)|import +(.*))", re.MULTILINE
)


@cache
def imports(path: Path) -> frozenset[Path]:
    """Files of kernel modules that the one at ``path`` imports, at its head or in its functions.

    Python's own parser would take a third of a second at the start of each process.
    """
    found: set[Path] = set()
    for package, names, modules in _IMPORT.findall(path.read_text("utf-8")):
        dotted = modules.split(",") if modules else [package]
        dotted += [f"{package}.{n.strip()}" for n in names.strip("()").split(",") if n.strip()]
        for name in dotted:
            module = name.split()[0]
            if not module.startswith(_PACKAGE + "."):
                continue
            below = _ROOT.joinpath(*module.removeprefix(_PACKAGE + ".").split("."))
            found |= {p for p in (below.with_suffix(".py"), below / "__init__.py") if p.is_file()}
    return frozenset(found)
