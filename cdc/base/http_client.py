"""httpx without its command line, which comes with rich, pygments and click where these are.

They are a tenth of what a command of ours takes to start.
"""

from __future__ import annotations

import sys

__all__ = ["httpx"]

_COMMAND_LINE = "httpx._main"
# A name that is None cannot be imported, and httpx does without it.
_ABSENT = _COMMAND_LINE not in sys.modules
if _ABSENT:
    sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]
try:
    import httpx
finally:
    if _ABSENT:
        del sys.modules[_COMMAND_LINE]
