"""Java's ``.properties``, as far as tools are configured by them: lines ``key=value``."""

from __future__ import annotations


def properties(text: str) -> dict[str, str] | None:
    """Values by key; None if a line is neither one of them, nor empty or a comment."""
    lines = (line.strip() for line in text.splitlines())
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#!"]
    if any(not sign for _, sign, _ in pairs):
        return None
    return {key.strip(): value.strip() for key, _, value in pairs}
