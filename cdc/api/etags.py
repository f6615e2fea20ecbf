"""``ETag`` of what can be changed, and ``If-Match`` of its changes (RFC 9110, sections 8.8, 13.1).

A tag stands for the configuration and the state of a changefeed, or for how an upstream is
reached: not for its progress, which changes all the time and which nobody sets.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Depends, Header, Response

from cdc.coord.contract import StoredKey
from cdc.coord.expected import Expected

_TAG = re.compile(r'"([^"]*)"')
TAGGED: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "ETag": {
                "description": "What a later change can name in `If-Match`.",
                "schema": {"type": "string"},
            }
        }
    }
}
"""For ``responses`` of a route that gives a tag."""


def put(response: Response, entry: StoredKey | None) -> None:
    """Give the tag of an entry with an answer."""
    if entry is not None:
        response.headers["ETag"] = f'"{entry.mod_revision}"'


def _asked(
    if_match: Annotated[
        str | None,
        Header(
            description="Tags, or `*`: change it only if it is still one of these (412 if not).",
            pattern=r'^(\*|(W/)?"[!#-~]*"(, ?(W/)?"[!#-~]*")*)$',
        ),
    ] = None,
) -> Expected:
    if if_match is None or if_match == "*":
        return None
    # A weak tag (W/"7") stands for no state that could be compared, so it matches nothing.
    tags = [] if "W/" in if_match else _TAG.findall(if_match)
    return frozenset(int(t) for t in tags if t.isascii() and t.isdecimal() and len(t) < 20)


IfMatch = Annotated[Expected, Depends(_asked)]
"""As a parameter of a route."""
