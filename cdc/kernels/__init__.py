"""Numba functions over arrays, nothing else; the only place that imports numba.

``cdc.kernels.cache`` says where compiled code is kept, and why not where numba would keep it.
"""

from __future__ import annotations

import os
import sys

_LOCATORS = "cdc.kernels.cache.Locator,UserProvidedCacheLocator,UserWideCacheLocator"

os.environ["NUMBA_CACHE_LOCATOR_CLASSES"] = _LOCATORS
if "numba" in sys.modules:
    sys.modules["numba"].config.CACHE_LOCATOR_CLASSES = _LOCATORS
