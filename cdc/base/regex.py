"""Regular expressions that users give: RE2's syntax, which is Go's and so TiCDC's.

Matching takes time linear in the text, whatever the expression: there is no backtracking that a
hostile or clumsy one could send astray.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class Regex:
    """A compiled expression; ``ValueError`` says why a text is none."""

    def __init__(self, source: str, *, ignore_case: bool = False) -> None:
        self.source = source
        self._ignore_case = ignore_case
        try:
            self.search("")
        except (pa.ArrowInvalid, UnicodeEncodeError) as e:
            raise ValueError(str(e).removeprefix("Invalid regular expression: ")) from None

    def search(self, text: str) -> bool:
        """Whether the expression matches anywhere in the text."""
        return bool(self.search_all([text])[0].as_py())

    def search_all(self, texts: Sequence[str] | Any) -> Any:
        """The same for each of many texts (or of an Arrow array of them): an Arrow array."""
        return pc.match_substring_regex(
            texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string()),
            options=self._options,
        )

    @cached_property
    def _options(self) -> Any:
        return pc.MatchSubstringOptions(self.source, ignore_case=self._ignore_case)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (self.source, self._ignore_case))


def _again(source: str, ignore_case: bool) -> Regex:
    return Regex(source, ignore_case=ignore_case)
