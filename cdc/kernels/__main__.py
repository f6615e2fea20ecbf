"""``python -m cdc.kernels``: compile every kernel into the cache, or find it there."""

from __future__ import annotations

import importlib
import pkgutil
import time

import cdc.kernels


def main() -> None:
    """Import each module below ``cdc.kernels``: signatures are compiled at import."""
    started = time.monotonic()
    names = sorted(
        module.name
        for module in pkgutil.walk_packages(cdc.kernels.__path__, "cdc.kernels.")
        if not module.name.endswith("__main__")
    )
    for i, name in enumerate(names, 1):
        before = time.monotonic()
        warm = getattr(importlib.import_module(name), "warm", None)
        if warm is not None:
            warm()
        spent = time.monotonic() - before
        if spent > 0.2:
            print(f"[{i}/{len(names)}] {name}: {spent:.1f} s", flush=True)
    print(f"{len(names)} kernel modules ready in {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
