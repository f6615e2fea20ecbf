"""Schema changes of a shard group, pessimistic: carried out once, when all its tables have come.

Each table waits at its own barrier, below its own change, so all that the group has delivered has
the old definition, and all that it delivers later the new one. A *round* is one change of each
table; its ledger record has the ts of the last of them, the *leader*: it is forgotten when the
whole round lies below the checkpoint. All here are steps over values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc.base.errors import DefiniteError
from cdc.base.ts import Ts
from cdc.coord.messages import DdlState
from cdc.schema.catalog import Catalog
from cdc.schema.table import Table
from owner.barrier import Pending
from owner.ddl import EVERY, Ddl, DDLAction, Judged, excerpt
from owner.shard_part import Members, ShardChangeRefused, ShardPart, ShardRole, TableName
from sink.dispatch.shards import ShardTablesDiffer, difference

Rounds = Mapping[Ts, tuple[Ts, ...]]
"""Rounds that were begun: by the leader's ts those of all its changes."""


class ShardDdlConflict(DefiniteError):
    """A table has come to another schema change than the others of its shard group."""

    code = "TG:ErrShardDDLConflict"


ACCEPTABLE = frozenset({ShardDdlConflict.code, ShardTablesDiffer.code})
"""Obstacles that an operator can accept."""

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Groups:
    """Shard groups behind the last statement that was taken in.

    ``optimistic``: their changes are those of :mod:`owner.shard_group`.
    """

    members: Members = field(default_factory=dict)
    schemas: Catalog = field(default_factory=Catalog)
    optimistic: bool = False


def leader_of(rounds: Rounds, ts: Ts) -> Ts | None:
    """The leader of the begun round that a change belongs to."""
    return next((leader for leader, all_of in rounds.items() if ts in all_of), None)


def missing(pending: Sequence[Pending], groups: Groups, rounds: Rounds) -> dict[Ts, list[str]]:
    """By change, the tables of its group that have not come to theirs."""
    found: dict[Ts, list[str]] = {}
    for view in _views(pending, groups).values():
        late = sorted(t for t in view.wanted if _change(view.heads.get(t)) is None)
        for table, p in view.heads.items():
            if late and _change(p) is not None and leader_of(rounds, p.ts) is None:
                others = [t for t in late if t != table]
                more = len(others) - _SHOWN
                found[p.ts] = others[:_SHOWN] + ([f"and {more} more"] if more > 0 else [])
    return found


def without_change(pending: Sequence[Pending], groups: Groups) -> dict[str, list[str]]:
    """By name at the target the tables of a group that have no change, while others have."""
    found = {}
    for group, view in _views(pending, groups).items():
        if any(_change(p) is not None for p in view.heads.values()):
            found[".".join(group)] = sorted(view.wanted - view.heads.keys())
    return found


def obstacles(pending: Sequence[Pending], groups: Groups) -> dict[Ts, DefiniteError]:
    """By change what keeps it from being carried out with its group, as things are now."""
    errors: dict[Ts, DefiniteError] = {}
    for view in _views(pending, groups).values():
        errors |= {**_conflicts(view), **_strangers(view, pending)}
    return errors


def may_run(p: Pending, pending: Sequence[Pending], groups: Groups, rounds: Rounds) -> bool:
    """Whether a change that its own table has come to may run without others of its group."""
    part = p.judged.shard
    if part is None or p.action is DDLAction.SKIP:
        return True
    if part.role is ShardRole.CHANGE:
        return p.record in rounds
    if part.role is ShardRole.LEAVE:
        views = _views(pending, groups)
        return not leaves_joining(p, lambda group: views[group].wanted, pending)
    if part.role is not ShardRole.JOIN:
        return True
    if p.obstacle is not None:
        return False
    for q in pending:
        other = q.judged.shard
        if other is not None and other.group == part.group and q.ts != p.ts:
            first = other.role is ShardRole.FIRST and q.ts < p.ts
            if first or leader_of(rounds, q.ts) is not None:
                return False
    return p.accepted or not _views(pending, groups)[part.group].unlike(part)


def leaves_joining(
    p: Pending, tables: Callable[[TableName], Collection[str]], pending: Iterable[Pending]
) -> bool:
    """Whether the last table of a group leaves before one has joined that was made before that.

    The target keeps the definition of the last one, and nobody would be left to say what one that
    joins must be like. ``tables`` are those of a group where it stands.
    """
    part = p.judged.shard
    if part is None or part.role is not ShardRole.LEAVE:
        return False
    joining = {
        other.group
        for q in pending
        if q.ts < p.ts and (other := q.judged.shard) is not None and other.role is ShardRole.JOIN
    }
    return any(
        {(group, table) for table in tables(group)} <= set(part.leaves)
        for group in joining & part.groups
    )


def complete(
    due: Collection[Pending], pending: Sequence[Pending], groups: Groups
) -> list[list[Pending]]:
    """Rounds that may begin: all tables of a group have come to the same change.

    ``due`` are changes that their own tables have come to.
    """
    came = {p.ts for p in due if _change(p) is not None}
    found = []
    for view in _views(pending, groups).values() if came else ():
        heads = [view.heads.get(table) for table in view.wanted]
        round_ = sorted((p for p in heads if p is not None), key=lambda p: p.ts)
        fit = all(p.ts in came and p.obstacle is None for p in round_)
        if round_ and fit and len(round_) == len(heads) and not view.about_to_join():
            found.append(round_)
    return found


def statement_of(round_: Sequence[Pending]) -> tuple[Ddl, tuple[TableName, ...]]:
    """What a round executes, and of which table: the group's change, under the leader's ts."""
    leader = round_[-1]
    model = next((p for p in reversed(round_) if not p.accepted), leader)
    return recorded_as(model.ddl, leader.instead or leader.ddl), model.judged.replicated


def recorded_as(ddl: Ddl, other: Ddl) -> Ddl:
    """A change as the ledger records it, at the place of another one."""
    if ddl.ts == other.ts:
        return ddl
    assert ddl.change is not None
    return replace(ddl, ts=other.ts, name=other.name, change=replace(ddl.change, ts=other.ts))


def of_round(leader: Pending, pending: Sequence[Pending], rounds: Rounds) -> list[Pending]:
    """What is carried out with the change that leads a begun round, itself included."""
    all_of = rounds.get(leader.record, ()) if _changes(leader) else ()
    return [p for p in pending if p.ts in all_of and _changes(p)]


def without_leader(
    leader: Ddl, judged: Judged | None, pending: Sequence[Pending], rounds: Rounds
) -> tuple[Pending, ...] | None:
    """A round that was begun goes on where its leader is no change of the group any more.

    Another filter may have left that one out. What the target has of it only its record tells, so
    the last of the others is carried out under the leader's ts. None where the leader leads, or
    nothing is left of the round.
    """
    part = judged.shard if judged is not None else None
    if part is not None and part.role is ShardRole.CHANGE:
        return None
    rest = [p for p in pending if p.ts in rounds.get(leader.ts, ()) and _changes(p)]
    if not rest:
        return None
    stands_in = replace(rest[-1], state=DdlState.WAITING, instead=leader)
    return tuple(stands_in if p is rest[-1] else p for p in pending)


@dataclass(frozen=True, slots=True)
class _View:
    """One group: the next change of each table that has any, and the tables that are in it by now.

    Those that are made by a change that is still pending are not.
    """

    group: TableName
    heads: Mapping[str, Pending]
    wanted: frozenset[str]
    groups: Groups

    def unlike(self, part: ShardPart) -> str:
        """In what a new table differs from the others as they are at the target; "" in nothing."""
        names = self.groups.members.get(self.group, {})
        for table in sorted(self.wanted - {part.table}):
            head = self.heads.get(table)
            pending = head.judged.shard if head is not None else None
            if pending is not None and pending.definition is not None:
                known: Table | None = pending.definition
            else:
                known = self.groups.schemas.table(*names[table]) if table in names else None
            if known is not None and part.definition is not None:
                return difference(known, part.definition)
        return ""

    def passes(self, pending: Sequence[Pending], new: Collection[str]) -> list[Table]:
        """Definitions that the group has or, by what is pending, comes to; without ``new`` tables.

        A new table's own changes do not bring the group nearer to it.
        """
        changes = (c for p in pending if (c := _change(p)) is not None and c.group == self.group)
        found = [c.definition for c in changes if c.table not in new]
        names = self.groups.members.get(self.group, {})
        found += [self.groups.schemas.table(*name) for t, name in names.items() if t not in new]
        return [table for table in found if table is not None]

    def about_to_join(self) -> bool:
        """Whether a table is made as the target is now.

        One that comes from another name is not asked: its next change is its old name's.
        """
        return any(
            (part := p.judged.shard) is not None
            and part.role is not ShardRole.MOVE
            and table in part.begins
            and not self.unlike(part)
            for table, p in self.heads.items()
        )


def _views(pending: Sequence[Pending], groups: Groups) -> dict[TableName, _View]:
    """Groups of which changes are pending."""
    heads: dict[TableName, dict[str, Pending]] = {}
    for p in pending:
        part = p.judged.shard
        if part is not None:
            leaves = part.leaves or ((part.group, part.table),)
            for group, table in (*leaves, *((part.group, table) for table in part.begins)):
                heads.setdefault(group, {}).setdefault(table, p)
    found = {}
    for group, of_group in heads.items():
        begun = {t for t, p in of_group.items() if p.judged.shard and t in p.judged.shard.begins}
        wanted = (groups.members.get(group, {}).keys() | of_group.keys()) - begun
        found[group] = _View(group, of_group, frozenset(wanted), groups)
    return found


def _change(p: Pending | None) -> ShardPart | None:
    part = None if p is None or p.action is not DDLAction.EXECUTE else p.judged.shard
    return part if part is not None and part.role is ShardRole.CHANGE else None


def _changes(p: Pending) -> bool:
    """Whether it changes the definition of a table, whatever is decided about it."""
    return p.judged.shard is not None and p.judged.shard.role is ShardRole.CHANGE


def _conflicts(view: _View) -> dict[Ts, DefiniteError]:
    """Changes that are not the group's next, which is the first of the log that is not accepted."""
    wanted = ((t, view.heads.get(t)) for t in view.wanted)
    heads = sorted(
        ((p, part) for t, p in wanted if p is not None and (part := _change(p)) is not None),
        key=lambda head: head[0].ts,
    )
    found: dict[Ts, DefiniteError] = {}
    model = next(((p, part) for p, part in heads if not p.accepted), None)
    for p, part in heads:
        others = view.wanted - {part.table}
        if others and (EVERY in p.tables or others & p.tables):
            found[p.ts] = tied_together(part, EVERY in p.tables)
        elif model is not None and part.effect != model[1].effect:
            found[p.ts] = _differs(p, part, *model)
    return found


def _strangers(view: _View, pending: Sequence[Pending]) -> dict[Ts, DefiniteError]:
    """Tables that are made with another definition than their group has or, so far, comes to."""
    found: dict[Ts, DefiniteError] = {}
    joining = [
        (p, part)
        for p in view.heads.values()
        if (part := p.judged.shard) is not None and part.role is ShardRole.JOIN
    ]
    new = {part.table for _, part in joining}
    known = view.passes(pending, new) if joining else []
    for p, part in joining:
        if any(part.definition and not difference(d, part.definition) for d in known):
            continue
        if what := view.unlike(part):
            found[p.ts] = ShardTablesDiffer(
                f"would become {'.'.join(view.group)}, but {what}",
                object=part.table,
                hint="give it the group's definition, or accept it: cdc cli ddl approve",
            )
    return found


def tied_together(part: ShardPart, every: bool) -> ShardChangeRefused:
    """Why a change cannot wait for those of other tables. ``every``: all tables are tied."""
    why = "all tables are one stream" if every else "foreign keys of the target tie its tables"
    return ShardChangeRefused(
        f"{why}, so that none of {'.'.join(part.group)} can wait for the others",
        object=part.table,
        hint="carry it out at the target by hand, then skip it for each table: cdc cli ddl skip",
    )


def _differs(p: Pending, part: ShardPart, model: Pending, other: ShardPart) -> ShardDdlConflict:
    return ShardDdlConflict(
        f"its change is {excerpt(p.ddl.sql)!r}; that of {other.table} (ts {model.ts}) is "
        f"{excerpt(model.ddl.sql)!r}, and both become {'.'.join(part.group)}",
        object=part.table,
        hint=f"cdc cli ddl approve --ts {p.ts} takes it for the same; ddl skip leaves one out",
    )


def ended_by(rounds: Rounds, recorded: Iterable[Ts]) -> Rounds:
    """Rounds of which the sink's ledger knows; others were never begun there."""
    known = set(recorded)
    return {leader: all_of for leader, all_of in rounds.items() if leader in known}


def state_of(rounds: Rounds, ts: Ts, state: DdlState) -> DdlState:
    """The state of a change that is judged anew: all of a begun round but its leader just wait."""
    leader = leader_of(rounds, ts)
    return state if leader is None or leader == ts else DdlState.EXECUTING
