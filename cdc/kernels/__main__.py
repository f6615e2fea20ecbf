"""``python -m cdc.kernels``: compile every kernel into the cache, or find it there.

Each processor compiles modules whose own imports are compiled, so nothing is compiled twice.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from graphlib import TopologicalSorter
from pathlib import Path

from cdc.kernels.imports import imports
from cdc.kernels.loading import load

_ROOT = Path(__file__).parent


def main() -> None:
    """Load all that the modules below ``cdc.kernels`` compile."""
    started = time.monotonic()
    files = [path for path in sorted(_ROOT.rglob("*.py")) if path.name != "__main__.py"]
    order = TopologicalSorter({path: imports(path) for path in files})
    order.prepare()
    done = 0
    # A fork would begin with what another thread holds; a new process has nothing to inherit.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=spawn) as pool:
        running: dict[Future[float], Path] = {}
        while order.is_active():
            running |= {pool.submit(load, _name(path)): path for path in order.get_ready()}
            for ended in wait(running, return_when=FIRST_COMPLETED).done:
                path, spent = running.pop(ended), ended.result()
                order.done(path)
                done += 1
                if spent > 0.5:
                    print(f"[{done}/{len(files)}] {_name(path)}: {spent:.1f} s", flush=True)
    print(f"{len(files)} kernel modules ready in {time.monotonic() - started:.1f} s", flush=True)


def _name(path: Path) -> str:
    """The dotted name of a module, or package, of the kernels."""
    parts = path.relative_to(_ROOT).with_suffix("").parts
    return ".".join(("cdc.kernels", *(part for part in parts if part != "__init__")))


if __name__ == "__main__":
    main()
