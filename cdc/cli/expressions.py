"""Expressions of other tools for names, such as ``shop\\.item_.*``, as patterns of ours.

An expression matches the whole of ``schema.table``, in any case. What is not sure to be of two
names is refused, with its key.
"""

from __future__ import annotations

import re

from cdc.cli.imported import Findings

# A name as it is: Java's expressions take $ for the end, and nobody means that.
_NAME = re.compile(r"[\w$\-]+\Z")
_DOT = r"\."
# A point that nothing repeats.
_POINT = re.compile(r"\.(?![*+?{])")


def pattern(text: str, key: str, found: Findings) -> str:
    """An expression for one whole name as a pattern of ours."""
    if _NAME.match(text):
        return text
    if text in (".*", "(.*)"):
        return "*"
    prefix = text.removesuffix(".*")
    if prefix != text and _NAME.match(prefix):
        return f"{prefix}*"
    if "." in re.sub(r"\\.|\.[*+?]", "", text):
        found.refuse(key, f"whether the point of {text!r} is one between names is not sure")
    return "/^(?:" + text.replace("/", r"\/") + ")$/"


def names(text: str, key: str, count: int, found: Findings) -> list[str]:
    r"""The expressions of ``a.b`` or ``a\.b``, of so many names."""
    parts = text.split(_DOT) if _DOT in text else _POINT.split(text)
    if len(parts) != count or not all(parts) or _alternates(text):
        found.refuse(key, rf"{text!r} is not {count} names with \. between them")
        return ["*"] * count
    return [pattern(part, key, found) for part in parts]


def _alternates(text: str) -> bool:
    """Whether an expression is one of several, which do not have their names in common."""
    depth = 0
    for c in re.sub(r"\\.", "", text):
        depth += (c == "(") - (c == ")")
        if c == "|" and not depth:
            return True
    return False


def table(text: str, key: str, found: Findings) -> str:
    """An expression of a schema's and a table's name as a pattern of ours."""
    if (whole := re.fullmatch(r"([\w$\-]+)\.\*", text)) is not None:
        # An expression of both names: whatever begins so.
        return f"{whole[1]}*.*"
    return ".".join(names(text, key, 2, found))
