"""Bodies of requests, whole and before anything reads them: how large, how deep, in what text.

Python's reader of JSON and all that walks what it has read call themselves for each level, so a
body of brackets alone ends in an error that nobody has foreseen, wherever it is read first.
"""

from __future__ import annotations

import json
import re

import numpy as np
from starlette.types import Receive

from cdc.base.errors import InvalidError

# A configuration with some ten thousand rules is about one MiB.
MAX_BODY = 8 << 20
# The deepest of a changefeed's configuration has seven.
MAX_DEPTH = 64
# Also one without an end, and one that ends in a backslash: so each byte is looked at once.
_STRING = re.compile(rb'"(?:[^"\\]|\\.|\\\Z)*+(?:"|\Z)', re.DOTALL)
_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_MAYBE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class BodyTooLarge(InvalidError):
    """The body is larger than any request needs to be."""

    code = "TG:ErrAPIBodyTooLarge"


class BodyUnreadable(InvalidError):
    """The body is nested deeper than any request needs, or is no UTF-8."""

    code = "TG:ErrAPIBodyUnreadable"


def too_large(most: int = MAX_BODY) -> BodyTooLarge:
    """The error for a body beyond ``most`` bytes."""
    return BodyTooLarge(
        f"a body has at most {most >> 20} MiB", hint="write fewer rules, with wildcards"
    )


async def taken(receive: Receive, most: int = MAX_BODY) -> bytes:
    """A request's body; raises BodyTooLarge as soon as it has more than ``most`` bytes."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > most:
            raise too_large(most)
        if not message.get("more_body", False):
            return bytes(body)


def judge(body: bytes) -> None:
    """Raise BodyUnreadable for a body that must not be read; whether it is JSON is not asked."""
    hint = "send JSON in UTF-8, as the API's description has it"
    # JSON in UTF-16 has it, and is found out by readers of JSON, but not by what follows.
    if b"\0" in body:
        raise BodyUnreadable("the body is not in UTF-8", hint=hint)
    if depth(body) > MAX_DEPTH:
        raise BodyUnreadable(f"the body is nested more than {MAX_DEPTH} deep", hint=hint)
    if _MAYBE_SURROGATE.search(body) and not _is_text(body):
        raise BodyUnreadable("the body has half a character (a lone surrogate)", hint=hint)


def depth(body: bytes) -> int:
    """How deep brackets stand in each other, strings left out."""
    marks = np.frombuffer(_STRING.sub(b"", body).translate(None, _BRACKETS), np.uint8)
    if not len(marks):
        return 0
    opens = (marks == ord("[")) | (marks == ord("{"))
    return int(np.cumsum(np.where(opens, 1, -1), dtype=np.int64).max())


def _is_text(body: bytes) -> bool:
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    except ValueError:
        # Whoever reads it says what is wrong.
        return True
    return True
