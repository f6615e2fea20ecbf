"""How many files a capture may have open.

A login shell allows 1,024, and each changefeed has some seven open in the capture and in each
worker: a hundred and fifty of them would be the end. Nothing here waits with ``select``, for which
that number was made.
"""

from __future__ import annotations

import resource

# Thousands of changefeeds; more would only make what copies tables of descriptors slow.
ENOUGH = 65_536


def allow_open_files() -> int:
    """Raise the soft limit to what the hard one lets, at most ``ENOUGH``.

    Processes that are started have it too. A limit that was higher stays. Returns what holds now.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
