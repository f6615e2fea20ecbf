"""Keys of another tool's configuration that are known here, and what becomes of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc.cli.imported import Findings


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """What is read, what must be so, what is left out, and what no changefeed can do.

    ``read`` are taken elsewhere, also those that begin with one of ``read_below``. ``as_we_do`` has
    the values with which messages are those that we make. ``left`` has, by the beginning of a key,
    why it has no counterpart, or nothing where such keys are not known all the same, and
    ``refused`` why it is in the way. A key that is not known is refused, too: ``noun`` is what the
    tool calls it.
    """

    noun: str
    read: frozenset[str]
    as_we_do: Mapping[str, str]
    left: Mapping[str, str]
    refused: Mapping[str, str] = field(default_factory=dict)
    read_below: tuple[str, ...] = ()

    def check(self, given: Mapping[str, str], findings: Findings) -> None:
        """Note in ``findings`` what is refused of the ``given`` values, and what is left out."""
        for key, value in given.items():
            if key in self.refused:
                findings.refuse(key, self.refused[key])
            elif key in self.as_we_do:
                if value.lower() != self.as_we_do[key].lower():
                    findings.refuse(key, f"messages are those of {self.as_we_do[key]}")
            elif key in self.read or key.startswith(self.read_below):
                continue
            elif why := self._why_left(key):
                findings.left[key] = why
            else:
                findings.refuse(key, f"is no {self.noun} that is known here")

    def _why_left(self, key: str) -> str:
        fits = [begin for begin in self.left if key.startswith(begin)]
        return self.left[max(fits, key=len)] if fits else ""
