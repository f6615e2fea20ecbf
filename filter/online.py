"""Online schema change: which tables are a tool's, and when its copy takes a table's place.

What tools make besides the table that they change is not delivered; at the cut-over the target
gets the one ALTER that was meant. Copies are known by what made them (:mod:`cdc.schema.copies`), or
by rules of the user's, DM's ``shadow-table-rules`` and ``trash-table-rules``: then names decide.
Where the usual names of gh-ost and pt-online-schema-change are all that speaks for a copy, nothing
is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from cdc.base.errors import DefiniteError, InvalidError
from cdc.base.regex import Regex
from cdc.coord.feed_config import FeedConfig
from cdc.schema.catalog import Catalog
from cdc.schema.copies import copies_of, has_tools_name, of_tool
from cdc.schema.cut_over import CutOver
from cdc.schema.statement import DdlStatement, TableName, Verb
from cdc.schema.table_copy import Proof, TableCopy

_USUAL_SHADOW = ("^_+(.+)_(?:new|gho)$",)
_USUAL_TRASH = ("^_+(.+)_(?:ghc|del|old)$",)
_GROUP = re.compile(r"(?<!\\)\((?!\?)")


class OnlineRuleInvalid(InvalidError):
    """A text of shadow-table-rules or trash-table-rules that names no table."""

    code = "TG:ErrOnlineDDLRuleInvalid"


class OnlineDdlUntold(DefiniteError):
    """A table came in the place of another, and nothing tells whether it is a tool's copy."""

    code = "TG:ErrOnlineDDLUntold"


class Copied(Protocol):
    """Tables at one ts, with what is known of copies."""

    def copy_of(self, schema: str, name: str) -> TableCopy | None:
        """What is known of a table as a copy of another; None if it is none."""


class NameRules:
    """Rules of one list; each matches names and holds the real one in its only group.

    Raises OnlineRuleInvalid, with the place in the configuration.
    """

    def __init__(self, rules: Sequence[str], place: str) -> None:
        self._rules = [_compiled(text, f"{place}[{i}]") for i, text in enumerate(rules)]
        self._known: dict[str, str] = {}

    def real(self, name: str) -> str:
        """The table that ``name`` belongs to; empty if no rule matches."""
        found = self._known.get(name)
        if found is None:
            self.learn([name])
            found = self._known[name]
        return found

    def learn(self, names: Iterable[str]) -> None:
        """Match many names at once: alone, each takes as long as a thousand."""
        asked = list(dict.fromkeys(name for name in names if name not in self._known))
        reals = [""] * len(asked)
        for rule in reversed(self._rules if asked else ()):
            matched = pc.extract_regex(pa.array(asked, pa.string()), pattern=rule).to_pylist()
            for i, groups in enumerate(matched):
                if groups is not None and groups["real"]:
                    reals[i] = str(groups["real"])
        self._known.update(zip(asked, reals, strict=True))


def _compiled(text: str, place: str) -> str:
    whole = f"{'' if text.startswith('^') else '^'}{text}{'' if text.endswith('$') else '$'}"
    try:
        Regex(whole)
    except ValueError as e:
        raise _bad_rule(place, f"is no regular expression: {e}") from None
    if len(_GROUP.findall(whole)) != 1:
        raise _bad_rule(place, "must have one group, which holds the name of the real table")
    return _GROUP.sub("(?P<real>", whole, count=1)


def _bad_rule(place: str, what: str) -> OnlineRuleInvalid:
    return OnlineRuleInvalid(f"{place}: {what}", object=place, hint="such as ^_(.+)_(?:new|gho)$")


@dataclass(frozen=True, slots=True)
class OnlineReading:
    """What a statement is in online schema changes.

    ``hidden`` are tables of it that are not delivered. ``cut_over``: a copy takes a table's place,
    and nothing else happens in it. ``undecided`` is a table that may be a copy, which what comes
    next will show. ``proven`` are copies that it proves. ``error``: it cannot be told.
    """

    hidden: frozenset[TableName] = frozenset()
    cut_over: CutOver | None = None
    undecided: TableName | None = None
    proven: frozenset[TableName] = frozenset()
    error: DefiniteError | None = None


NOTHING = OnlineReading()


class OnlineDdl:
    """A changefeed's settings for online schema change. Raises OnlineRuleInvalid."""

    def __init__(self, config: FeedConfig) -> None:
        shadow, trash = config.shadow_table_rules, config.trash_table_rules
        self.enabled = config.online_ddl
        self._by_name = shadow is not None or trash is not None
        self._shadow = NameRules(shadow or (), "shadow-table-rules")
        self._trash = NameRules(trash or (), "trash-table-rules")
        self._usual_shadow = NameRules(_USUAL_SHADOW, "")
        self._usual_trash = NameRules(_USUAL_TRASH, "")

    def learn(self, names: Iterable[TableName]) -> None:
        """All these will be asked about, by ``hides`` or ``resembled``."""
        if not self.enabled:
            return
        alone = [name for _, name in names]
        if self._by_name:
            self._shadow.learn(alone)
            self._trash.learn(alone)
        else:
            self._usual_shadow.learn(name for name in alone if name.startswith("_"))

    def hides(self, tables: Copied, schema: str, name: str) -> bool:
        """Whether a table is a tool's, so that neither it nor its rows are delivered."""
        if not self.enabled:
            return False
        copy = tables.copy_of(schema, name)
        if copy is not None and copy.proof is not Proof.NONE:
            return True
        return self._by_name and bool(self._shadow.real(name) or self._trash.real(name))

    def may_be_copy(self, tables: Copied, schema: str, name: str) -> bool:
        """Whether a table has a tool's usual name and began as a copy, and nothing proves it."""
        if not self.enabled or self._by_name:
            return False
        copy = tables.copy_of(schema, name)
        if copy is None or copy.proof is not Proof.NONE or not copy.model:
            return False
        return self._usual_shadow.real(name).lower() == copy.model.lower()

    def resembled(self, name: str) -> str:
        """The table that this one would be a copy of, if names told; else nothing."""
        if not self.enabled or self._by_name or not name.startswith("_"):
            return ""
        return self._usual_shadow.real(name)

    def read(self, statement: DdlStatement, before: Catalog, after: Catalog) -> OnlineReading:
        """What a statement is; ``before`` and ``after`` are the schema on both sides of it."""
        if not self.enabled:
            return NOTHING
        if statement.kind == "create trigger":
            return OnlineReading(proven=frozenset(_newly_proven(before, after)))
        swap = self._swap(statement, before, after)
        if swap is not None:
            return swap
        hidden = {n for n in statement.tables if self.hides(before, *n) or self.hides(after, *n)}
        if statement.verb is Verb.DROP:
            hidden |= {n for n in statement.tables if _was_never(before, n)}
            if not statement.session.foreign_key_checks:
                hidden |= {n for n in statement.tables if _about_to_come(before, n)}
        if len(statement.renames) == 1 and of_tool(statement.sql):
            # The first half of a swap: the name is free for a moment.
            old, new = statement.renames[0]
            hidden |= {old} if self.hides(after, *new) else set()
        undecided = next((n for n in statement.tables if self.may_be_copy(after, *n)), None)
        return OnlineReading(frozenset(hidden), undecided=undecided)

    def _swap(
        self, statement: DdlStatement, before: Catalog, after: Catalog
    ) -> OnlineReading | None:
        steps = statement.renames
        for old, new in steps:
            if old[0] != new[0] or not self._takes_place(statement, before, old, new):
                continue
            copy = before.copy_of(*old)
            base, made = before.table(*new), after.table(*new)
            if base is None and copy is not None:
                base = copy.replaced
            others = [s for s in steps if s != (old, new) and s[0] != new]
            if not self._told(statement, copy, old, new):
                return OnlineReading(error=_untold(statement, old, new))
            if base is None or made is None or others:
                return OnlineReading(error=_untold(statement, old, new))
            cut = CutOver(new, old, base, made, copy)
            return OnlineReading(frozenset(statement.tables) - {new}, cut)
        return None

    def _takes_place(
        self, statement: DdlStatement, before: Catalog, old: TableName, new: TableName
    ) -> bool:
        """Whether ``old`` is, or may be, a tool's copy of the table whose name it gets."""
        if self._by_name and self._shadow.real(old[1]).lower() == new[1].lower():
            return True
        copy = before.copy_of(*old)
        if copy is not None and copy.model and before.key(copy.model) == before.key(new[1]):
            # One that was delivered from its first row on is a table like any other.
            return copy.proof is not Proof.NONE
        usual = copy is None and self._usual_shadow.real(old[1]).lower() == new[1].lower()
        left = (to[1] for at, to in statement.renames if at == new)
        return usual and not self._by_name and any(map(self._usual_trash.real, left))

    def _told(
        self, statement: DdlStatement, copy: TableCopy | None, old: TableName, new: TableName
    ) -> bool:
        """Whether it is sure that a tool's copy takes the place of its table."""
        if self._by_name and self._shadow.real(old[1]).lower() == new[1].lower():
            return True
        if copy is None:
            return False
        by_tool = of_tool(statement.sql)
        return copy.proof is Proof.TRIGGERS or (by_tool and copy.proof is not Proof.LEFT)


def _newly_proven(before: Catalog, after: Catalog) -> list[TableName]:
    return [
        (database.name, name)
        for key, database in after.databases.items()
        if before.databases.get(key) is not database
        for name, copy in database.copies.items()
        if copy.proof is Proof.TRIGGERS
        and (known := before.copy_of(database.name, name)) is not None
        and known.proof is Proof.NONE
    ]


def _was_never(before: Catalog, name: TableName) -> bool:
    """Whether a tool makes sure that a table is not there which was not."""
    return has_tools_name(name[1]) and not before.has_table(*name)


def _about_to_come(before: Catalog, name: TableName) -> bool:
    """Whether a table has a copy that is kept up to date, so that its DROP is half of a swap."""
    return any(copy.proof is Proof.TRIGGERS for _, copy in copies_of(before, name))


def _untold(statement: DdlStatement, old: TableName, new: TableName) -> OnlineDdlUntold:
    return OnlineDdlUntold(
        f"{'.'.join(old)} came in its place, and nothing tells whether it is a copy that a tool of "
        "online schema change made",
        object=".".join(new),
        hint=f"say by shadow-table-rules whether {old[1]} is one, or set online-ddl = false; "
        "or carry the change out at the target by hand, and skip it",
    )
