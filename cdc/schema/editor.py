"""Changes to a statement's text by the positions of its items."""

from __future__ import annotations

from cdc.schema.tokens import Item, Kind


class Editor:
    """Collects replacements in one text; what is not replaced stays as it is.

    The statement begins at item ``first``. ``depth[i]`` says in how many parentheses item i is; the
    parentheses themselves are outside. ``actions`` are items ``[first, end)`` of each action of
    ALTER TABLE, if it is one.
    """

    def __init__(self, text: str, items: list[Item], first: int = 0) -> None:
        self.first = first
        self.text = text
        self.items = items
        self.depth: list[int] = []
        self.actions: list[tuple[int, int]] = []
        self._changes: dict[tuple[int, int], str] = {}
        self._dropped: set[int] = set()
        depth = 0
        for item in items:
            if item.kind is Kind.PUNCT and item.text == ")":
                depth -= 1
            self.depth.append(depth)
            if item.kind is Kind.PUNCT and item.text == "(":
                depth += 1

    def put(self, start: int, end: int, new: str) -> None:
        """Text ``[start, end)`` becomes ``new``; the first word on a place stays."""
        if not any(a < end and start < b for a, b in self._changes if a != b):
            self._changes.setdefault((start, end), new)

    def replace(self, first: int, last: int, new: str) -> None:
        """Items ``first`` to ``last``, both with it, become ``new``."""
        self.put(self.items[first].start, self.items[last].end, new)

    def remove(self, first: int, last: int) -> None:
        """Items ``first`` to ``last``, both with it, go."""
        self.replace(first, last, " ")

    def insert(self, behind: int, new: str) -> None:
        """``new`` comes behind an item."""
        end = self.items[behind].end
        self.put(end, end, f" {new} ")

    def replaced(self, start: int, end: int) -> str:
        """What a part of the text becomes."""
        return self._changes.get((start, end), self.text[start:end])

    def override(self, start: int, end: int, new: str) -> None:
        """As :meth:`put`, whatever was to become of what lies inside."""
        inside = [k for k in self._changes if start <= k[0] and k[1] <= end]
        for key in inside:
            del self._changes[key]
        self._changes[start, end] = new

    def drop(self, first: int, last: int) -> None:
        """An action or option, items ``first`` to ``last``, goes with one comma beside it."""
        if (first, last + 1) in self.actions:
            self._dropped.add(first)
            return
        if last + 1 < len(self.items) and self.items[last + 1].is_punct(","):
            last += 1
        elif not self.depth[first] and not self.actions and self.items[first - 1].is_punct(","):
            first -= 1
        self.remove(first, last)

    def _drop_actions(self) -> None:
        kept = False
        for i, (first, end) in enumerate(self.actions):
            gone = first in self._dropped
            if gone:
                self.override(self.items[first].start, self.items[end - 1].end, " ")
            if i and (gone or not kept):
                comma = self.items[first - 1]
                self.override(comma.start, comma.end, " ")
            kept = kept or not gone

    def clause_end(self, i: int) -> int:
        """The index of the item behind the clause of item i: its comma, parenthesis, or the end."""
        depth = self.depth[i]
        while i < len(self.items):
            item = self.items[i]
            if self.depth[i] < depth or (self.depth[i] == depth and item.is_punct(",")):
                return i
            i += 1
        return i

    def clause_start(self, i: int) -> int:
        """The index of the first item of the clause of item i."""
        depth = self.depth[i]
        while i > 0:
            before = self.items[i - 1]
            if self.depth[i - 1] < depth or (self.depth[i - 1] == depth and before.is_punct(",")):
                break
            i -= 1
        return i

    def closing(self, i: int) -> int:
        """The index of the parenthesis that closes the one at i."""
        depth = self.depth[i]
        i += 1
        while not (self.items[i].is_punct(")") and self.depth[i] == depth):
            i += 1
        return i

    def words(self, i: int, *words: str) -> bool:
        """Whether these keywords stand at i."""
        part = self.items[i : i + len(words)]
        return len(part) == len(words) and all(
            item.is_word(word) for item, word in zip(part, words, strict=True)
        )

    def result(self) -> str:
        """The text with all changes."""
        self._drop_actions()
        out, at = [], self.items[self.first].start
        for (start, end), new in sorted(self._changes.items()):
            if start < at:
                continue
            out += [self.text[at:start], new]
            at = end
        end = self.items[-1].end
        return "".join((*out, self.text[at:end])).strip()
