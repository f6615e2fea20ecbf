"""Tables that an operator has moved: which capture's workers deliver their destinations.

Rows of a destination are in order because one task delivers them, so a destination is moved whole,
with all tables that have rows in it. Nothing is handed over: where a window's tasks run is said
anew for each, and a window ends before the next one begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from processor.jobs import Captures
from processor.window import group
from sink.contract import Destination


def placed_destinations(
    placed: Mapping[str, str],
    destinations: Mapping[str, Collection[Destination]],
    captures: Captures,
) -> dict[Destination, str]:
    """The capture of each destination of a table that was moved to one that takes tasks now.

    ``placed``: by table (lower-case ``schema.table``) its capture, the last one moved last, which
    counts where tables share a destination. ``destinations``: by table those of a window.
    """
    found: dict[Destination, str] = {}
    for table, capture in placed.items():
        if capture in captures.rooms:
            found |= dict.fromkeys(destinations.get(table, ()), capture)
    return found


def dealt(
    weights: Mapping[Destination, int],
    placed: Mapping[Destination, str],
    tasks: int,
    captures: Captures,
) -> list[tuple[str, list[Destination]]]:
    """Destinations in groups, a task each, and whose workers are to deliver it; any if "".

    At most ``tasks`` of each capture, and no more than it runs at once. A single task of this one's
    is none by itself: it goes with those that any may deliver.

    >>> here = Captures("a", {"a": 2, "b": 2})
    >>> dealt({("t", 0): 5, ("t", 1): 5, ("u", 0): 1}, {("u", 0): "b"}, 4, here)
    [('', [('t', 0)]), ('', [('t', 1)]), ('b', [('u', 0)])]
    """
    by_capture: dict[str, dict[Destination, int]] = {}
    for destination, weight in weights.items():
        capture = placed.get(destination, "")
        if tasks == 1 and capture == captures.here:
            capture = ""
        by_capture.setdefault(capture, {})[destination] = weight
    return [
        (capture, found)
        for capture, part in sorted(by_capture.items())
        for found in group(part, min(tasks, captures.rooms.get(capture, tasks)))
    ]
