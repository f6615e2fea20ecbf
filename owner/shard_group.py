"""Optimistic shard groups and what may begin in each: one change, or one of all tables, at a time.

Pessimistic ones are in :mod:`owner.shard_ddl`. All here are steps over values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cdc.base.errors import DefiniteError
from cdc.base.ts import Ts
from cdc.schema.table import Table
from owner.barrier import Pending
from owner.ddl import EVERY, Ddl, DDLAction, excerpt
from owner.shard_apart import gone_another_way, untouched
from owner.shard_ddl import (
    Groups,
    Rounds,
    ShardDdlConflict,
    leader_of,
    leaves_joining,
    recorded_as,
    tied_together,
)
from owner.shard_join import (
    Standings,
    Verdict,
    between,
    by_definition,
    carried_out,
    definition_of,
    same_effect,
    verdict,
)
from owner.shard_part import ShardPart, ShardRole, TableName
from owner.shard_remnants import LEFT, Remnants, after_change, moved, renamed

_JUDGED = frozenset({ShardRole.CHANGE, ShardRole.JOIN})


@dataclass(frozen=True, slots=True)
class ShardStep:
    """Changes that begin together, in order of ts; the last has the record in the ledger.

    ``ddl`` is what the target executes, with the tables it is about; None: only the record.
    ``remnants`` are those of these groups from then on.
    """

    round_: tuple[Pending, ...]
    ddl: Ddl | None
    replicated: tuple[TableName, ...]
    remnants: Mapping[str, Mapping[str, tuple[str, ...]]]


@dataclass(frozen=True)
class _Group:
    """One group: its tables where they stand, and the next change of each, of whatever kind."""

    name: TableName
    heads: Mapping[str, Pending]
    standings: Standings
    remnants: Remnants

    @cached_property
    def verdicts(self) -> Mapping[Ts, Verdict]:
        """Of the next changes of tables, and of tables that are made."""
        return {
            p.ts: verdict(part, self.standings, self.remnants, accepted=p.accepted)
            for p in self.heads.values()
            if (part := p.judged.shard) is not None and part.role in _JUDGED and _asks(p, part)
        }

    @cached_property
    def strangers(self) -> Mapping[Ts, DefiniteError]:
        """Changes that wait for all tables, and are not what the first of them is."""
        waiting = sorted(
            (
                (p, part)
                for p in self.heads.values()
                if (part := _change(p)) is not None and self.together(p)
            ),
            key=lambda one: one[0].ts,
        )
        found: dict[Ts, DefiniteError] = {}
        model = next(((p, part) for p, part in waiting if not p.accepted), None)
        for p, part in waiting:
            others = self.standings.tables.keys() - {part.table}
            if EVERY in p.tables or others & p.tables:
                found[p.ts] = tied_together(part, EVERY in p.tables)
            elif model is not None and not same_effect(part.effect, model[1].effect):
                found[p.ts] = _differs(p, part, *model)
        return found

    def together(self, p: Pending) -> bool:
        """Whether a change waits until all tables have come to the same."""
        found = self.verdicts.get(p.ts)
        if found is None or not found.together:
            return False
        # What somebody accepts that others cannot come to is done as far as the target can follow.
        return not (p.accepted and found.beyond and self._gone(p, self._late))

    @cached_property
    def waiting(self) -> Mapping[str, Pending]:
        """Changes that wait for all tables, by table."""
        return {t: p for t, p in self.heads.items() if _change(p) and self.together(p)}

    @cached_property
    def wanted(self) -> frozenset[str]:
        """Tables that have to come to what waits for all."""
        others = {t: d for t, d in self.standings.tables.items() if t not in self.waiting}
        kinds = by_definition(others)
        models = {next(iter(tables)): kind for kind, tables in kinds.items()}
        shown = {table: others[table] for table in models}
        spared: frozenset[str] | None = None
        told: set[object] = set()
        for p in self.waiting.values():
            part = p.judged.shard
            if p.ts in self.strangers or part is None or part.definition is None:
                continue
            if (like := definition_of(part.definition)) in told:
                continue
            # What is no stranger has one effect, and of tables there are few definitions.
            told.add(like)
            found = untouched(p, part, shown)
            spared = found if spared is None else spared & found
        gone = {table for model in spared or () for table in kinds[models[model]]}
        return frozenset(self.standings.tables.keys() - gone)

    @cached_property
    def apart(self) -> Mapping[Ts, DefiniteError]:
        """Changes that wait for all tables, of which some cannot come to them as they are."""
        found: dict[Ts, DefiniteError] = {}
        late = {t: d for t, d in self._late.items() if t in self.wanted}
        for p in self.waiting.values():
            if gone := self._gone(p, late):
                found[p.ts] = _left_alone(p, self, *gone)
        return found

    @cached_property
    def _late(self) -> Mapping[str, Table]:
        """Tables that have come to nothing that waits for all, one of each definition."""
        late = {}
        for table, definition in sorted(self.standings.tables.items()):
            head = self.heads.get(table)
            known = self.verdicts.get(head.ts) if head is not None else None
            if known is None or not known.together:
                late[table] = definition
        return {next(iter(t)): late[next(iter(t))] for t in by_definition(late).values()}

    def _gone(self, p: Pending, late: Mapping[str, Table]) -> tuple[str, str] | None:
        """One of the late tables that cannot come to a change as it is, and why."""
        part, known = p.judged.shard, self.verdicts.get(p.ts)
        if part is None or known is None:
            return None
        for table, definition in late.items():
            if table != part.table and (why := gone_another_way(part, known.beyond, definition)):
                return table, why
        return None


def obstacles(
    pending: Sequence[Pending], groups: Groups, remnants: Remnants
) -> dict[Ts, DefiniteError]:
    """By change what keeps it from being carried out, as things are now."""
    found: dict[Ts, DefiniteError] = {}
    for group in _groups(pending, groups, remnants):
        found.update({**group.apart, **group.strangers})
        for p in group.heads.values():
            known = group.verdicts.get(p.ts)
            if known is not None and p.ts not in found:
                error = _obstacle(p, group, known)
                if error is not None:
                    found[p.ts] = error
    return found


def _obstacle(p: Pending, group: _Group, known: Verdict) -> DefiniteError | None:
    part = p.judged.shard
    if part is None or known.together:
        return None
    if known.obstacle:
        return _obstructed(p, group, known.obstacle)
    try:
        carried_out(p.ddl, part, known)
    except DefiniteError as e:
        # The statement between two joins that no text tells: somebody carries it out by hand.
        e.object = e.object or part.table
        return e
    return None


def missing(
    pending: Sequence[Pending], groups: Groups, rounds: Rounds, remnants: Remnants
) -> dict[Ts, list[str]]:
    """By change that waits for all tables, those that have not come to theirs."""
    found = {}
    for group in _groups(pending, groups, remnants):
        late = sorted(group.wanted - group.waiting.keys())
        for p in group.waiting.values():
            if late and leader_of(rounds, p.ts) is None:
                found[p.ts] = late
    return found


def without_change(
    pending: Sequence[Pending], groups: Groups, remnants: Remnants
) -> dict[str, list[str]]:
    """By name at the target, the tables for which changes of others wait."""
    found = {}
    for group in _groups(pending, groups, remnants):
        if any(group.together(p) for p in group.heads.values()):
            late = sorted(group.wanted - group.heads.keys())
            found[".".join(group.name)] = late
    return found


def may_run(p: Pending, rounds: Rounds) -> bool:
    """Whether a change that its tables have come to runs without being begun by its group."""
    part = p.judged.shard
    return part is None or part.role is ShardRole.NOTHING or p.record in rounds


def next_steps(
    due: Sequence[Pending],
    pending: Sequence[Pending],
    groups: Groups,
    rounds: Rounds,
    remnants: Remnants,
) -> Iterator[ShardStep]:
    """What may begin now, one in each group; ``due`` are changes that their own tables came to."""
    known = {g.name: g for g in _groups(pending, groups, remnants)}
    busy = {
        name
        for p in pending
        if p.judged.shard is not None and leader_of(rounds, p.ts) is not None
        for name in p.judged.shard.groups
    }
    came = {p.ts for p in due}
    for p in due:
        part = p.judged.shard
        if part is None or may_run(p, rounds) or p.obstacle is not None or part.groups & busy:
            continue
        if any(_makes_target(q, part.group) and q.ts < p.ts for q in pending):
            continue
        if leaves_joining(p, lambda name: known[name].standings.tables, pending):
            continue
        group = known[part.group]
        if not group.together(p) or p.action is DDLAction.SKIP:
            round_: tuple[Pending, ...] = (p,)
        else:
            round_ = _round(group, came)
        if round_:
            busy |= part.groups
            yield _step(round_, known)


def again(
    p: Pending, pending: Sequence[Pending], groups: Groups, rounds: Rounds, remnants: Remnants
) -> ShardStep:
    """The step of a change that was begun and has not ended."""
    known = {g.name: g for g in _groups(pending, groups, remnants)}
    return _step(tuple(q for q in pending if q.ts in rounds[p.record]), known)


def _round(group: _Group, came: Collection[Ts]) -> tuple[Pending, ...]:
    """The changes of all tables, once all have come to the same."""
    heads = [group.heads.get(table) for table in group.wanted]
    found = sorted((p for p in heads if p is not None), key=lambda p: p.ts)
    fit = all(
        p.ts in came and p.obstacle is None and _change(p) and group.together(p) for p in found
    )
    joins = any(
        p.ts in came and p.obstacle is None and (part := p.judged.shard) is not None
        and part.role is ShardRole.JOIN
        for p in group.heads.values()
    )  # fmt: skip
    return tuple(found) if fit and len(found) == len(heads) and not joins else ()


def _step(round_: tuple[Pending, ...], known: Mapping[TableName, _Group]) -> ShardStep:
    leader = round_[-1]
    part = leader.judged.shard
    assert part is not None
    group = known[part.group]
    ddl: Ddl | None = None
    if not _asks(leader, part):
        pass
    elif part.role is ShardRole.FIRST:
        ddl = leader.ddl
    elif len(round_) > 1 or group.together(leader):
        ddl = _of_all(round_, group)
    elif part.role in _JUDGED:
        ddl = carried_out(leader.ddl, part, group.verdicts[leader.ts])
    model = next((p for p in reversed(round_) if not p.accepted), leader)
    remnants = {".".join(name): _remnants(known[name], round_) for name in sorted(part.groups)}
    return ShardStep(round_, ddl, model.judged.replicated, remnants)


def _behind(round_: Iterable[Pending]) -> dict[str, Table]:
    """The tables of changes as they are behind them."""
    parts = (p.judged.shard for p in round_)
    return {p.table: p.after for p in parts if p is not None and p.after is not None}


def _of_all(round_: Sequence[Pending], group: _Group) -> Ddl:
    """The group's own statement under the leader's ts, between the joins of all tables."""
    leader = round_[-1]
    model = next((p for p in reversed(round_) if not p.accepted), leader)
    change, own = model.ddl.change, model.judged.shard
    assert change is not None
    assert own is not None
    before, after = group.standings.joined, group.standings.behind(_behind(round_))
    if own.after is not None and before is not None and after is not None:
        change = between(change, own.after, before.table, after.table)
    return recorded_as(replace(model.ddl, change=change), leader.instead or leader.ddl)


def _remnants(group: _Group, round_: Sequence[Pending]) -> Mapping[str, tuple[str, ...]]:
    """What the target will still have of columns that tables no longer have."""
    leader = round_[-1]
    part = leader.judged.shard
    assert part is not None
    tables = group.standings.tables
    gone = {table for name, table in part.leaves if name == group.name}
    rest = {name: table for name, table in tables.items() if name not in gone} | _behind(round_)
    there, then = _columns(tables.values()), _columns(rest.values())
    kept = {
        column: [name for name, new in _behind(round_).items() if _drops(tables, name, new, column)]
        for column in there & then
    }
    if gone or leader.action is DDLAction.SKIP:
        # The target keeps what it is not told of, with nobody to drop it later.
        kept |= {column: [LEFT] for column in (there - then if rest else ())}
    found = after_change(group.remnants, group.name, there, {c: t for c, t in kept.items() if t})
    if len(round_) > 1 or group.together(leader):
        found = renamed(found, part.effect.renamed if part.effect is not None else ())
    if part.role is ShardRole.MOVE:
        found = moved(found, part.table, min(part.begins))
    return found


def _columns(tables: Iterable[Table]) -> frozenset[str]:
    return frozenset(name for table in tables for name in table.positions)


def _drops(tables: Mapping[str, Table], name: str, new: Table, column: str) -> bool:
    old = tables.get(name)
    return old is not None and column in old.positions and column not in new.positions


def _groups(pending: Sequence[Pending], groups: Groups, remnants: Remnants) -> Iterator[_Group]:
    """Groups of which changes are pending."""
    names = {name for p in pending if p.judged.shard is not None for name in p.judged.shard.groups}
    for name in sorted(names):
        yield _group(name, pending, groups, remnants)


def _group(
    name: TableName, pending: Sequence[Pending], groups: Groups, remnants: Remnants
) -> _Group:
    """A group, whose tables are those behind the last statement, taken back to where they stand."""
    schemas = groups.schemas
    tables: dict[str, Table | None] = {
        table: schemas.table(*full) for table, full in groups.members.get(name, {}).items()
    }
    heads: dict[str, Pending] = {}
    for p in reversed(pending):
        part = p.judged.shard
        mine = part is not None and name in part.groups
        if part is not None and mine and part.leaves:
            left = {f"{t.schema}.{t.name}".lower(): t for t in part.left}
            for group, table in part.leaves:
                if group == name:
                    heads[table], tables[table] = p, left.get(table)
            continue
        if part is not None and mine and part.role is not ShardRole.NOTHING:
            for table in part.begins:
                heads[table], tables[table] = p, None
            if part.table not in part.begins:
                heads[part.table], tables[part.table] = p, part.definition
            continue
        for full in p.ddl.change.tables if p.ddl.change is not None else ():
            table = ".".join(full).lower()
            if table in tables and p.ddl.change is not None:
                # What it does to the table is refused or left out; it stands below it.
                heads[table], tables[table] = p, p.ddl.change.before.table(*full)
    there = {table: found for table, found in tables.items() if found is not None}
    return _Group(name, heads, Standings(name, there), remnants)


def _makes_target(p: Pending, group: TableName) -> bool:
    part = p.judged.shard
    return part is not None and part.role is ShardRole.FIRST and part.group == group


def _asks(p: Pending, part: ShardPart) -> bool:
    """Whether a change is to be carried out, as far as anything has to be."""
    if part.role is ShardRole.JOIN:
        return p.action is not DDLAction.SKIP
    return p.action is DDLAction.EXECUTE


def _change(p: Pending) -> ShardPart | None:
    part = p.judged.shard if p.action is DDLAction.EXECUTE else None
    return part if part is not None and part.role is ShardRole.CHANGE else None


def _obstructed(p: Pending, group: _Group, why: str) -> ShardDdlConflict:
    assert p.judged.shard is not None
    return ShardDdlConflict(
        f"its change is {excerpt(p.ddl.sql)!r}, and {'.'.join(group.name)} cannot follow: {why}",
        object=p.judged.shard.table,
        hint=f"make the other tables fit; or cdc cli ddl approve --ts {p.ts} carries it out as far"
        " as the target can follow, and ddl skip leaves it out",
    )


def _left_alone(p: Pending, group: _Group, other: str, why: str) -> ShardDdlConflict:
    assert p.judged.shard is not None
    beyond = group.verdicts[p.ts].beyond
    way = (
        f"cdc cli ddl approve --ts {p.ts} carries it out as far as the target can follow, and"
        if beyond
        else "carry it out at the target by hand;"
    )
    return ShardDdlConflict(
        f"its change is {excerpt(p.ddl.sql)!r}, to which all tables of {'.'.join(group.name)} must"
        f" come, but {other} {why}",
        object=p.judged.shard.table,
        hint=f"make the other tables fit; or {way} ddl skip leaves it out",
    )


def _differs(p: Pending, part: ShardPart, model: Pending, other: ShardPart) -> ShardDdlConflict:
    return ShardDdlConflict(
        f"its change is {excerpt(p.ddl.sql)!r}; that of {other.table} (ts {model.ts}) is "
        f"{excerpt(model.ddl.sql)!r}, and {'.'.join(part.group)} can only follow what all its"
        " tables do",
        object=part.table,
        hint=f"cdc cli ddl approve --ts {p.ts} takes it for the same; ddl skip leaves one out",
    )
