"""What may begin in shard groups, by the changefeed's shard mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc.base.errors import DefiniteError
from cdc.base.ts import Ts
from cdc.coord.messages import ErrorInfo
from owner import shard_ddl, shard_group
from owner.barrier import Pending
from owner.ddl import DDLAction
from owner.shard_ddl import ACCEPTABLE, Groups, Rounds, leader_of, of_round
from owner.shard_group import ShardStep
from owner.shard_remnants import Remnants


@dataclass(frozen=True, slots=True)
class ShardGroups:
    """Shard groups of a changefeed, and what is known of them beside the log.

    ``rounds`` were begun; ``remnants`` are columns that the target has and tables have dropped.
    """

    groups: Groups = field(default_factory=Groups)
    rounds: Rounds = field(default_factory=dict)
    remnants: Remnants = field(default_factory=dict)

    def with_obstacles(self, pending: Sequence[Pending]) -> tuple[Pending, ...]:
        """Each change with what keeps it from being carried out, as things are now."""
        errors: Mapping[Ts, DefiniteError]
        if self.groups.optimistic:
            errors = shard_group.obstacles(pending, self.groups, self.remnants)
        else:
            errors = shard_ddl.obstacles(pending, self.groups)
        found: dict[Ts, ErrorInfo] = {}
        for p in pending if errors else ():
            error = errors.get(p.ts)
            if error is None or leader_of(self.rounds, p.ts) is not None:
                continue
            if not (p.accepted and error.code in ACCEPTABLE):
                # A time of its own would be news in every tick.
                said = ErrorInfo.of(error, p.since_ms)
                found[p.ts] = said.model_copy(update={"position": f"ts {p.ts}"})
        return tuple(
            p if p.obstacle == found.get(p.ts) else replace(p, obstacle=found.get(p.ts))
            for p in pending
        )

    def missing(self, pending: Sequence[Pending]) -> dict[Ts, list[str]]:
        """By change, the tables of its group that it waits for."""
        if self.groups.optimistic:
            return shard_group.missing(pending, self.groups, self.rounds, self.remnants)
        return shard_ddl.missing(pending, self.groups, self.rounds)

    def without_change(self, pending: Sequence[Pending]) -> dict[str, list[str]]:
        """By name at the target the tables that have no change, while others wait for them."""
        if self.groups.optimistic:
            return shard_group.without_change(pending, self.groups, self.remnants)
        return shard_ddl.without_change(pending, self.groups)

    def may_run(self, p: Pending, pending: Sequence[Pending]) -> bool:
        """Whether a change that its tables have come to may run without being begun here."""
        if self.groups.optimistic:
            return shard_group.may_run(p, self.rounds)
        return shard_ddl.may_run(p, pending, self.groups, self.rounds)

    def is_begun(self, p: Pending) -> bool:
        """Whether a change was begun here, whatever it executes."""
        if self.groups.optimistic:
            return p.judged.shard is not None and p.record in self.rounds
        return p.action is not DDLAction.IGNORE and bool(of_round(p, [p], self.rounds))

    def next_steps(self, due: Sequence[Pending], pending: Sequence[Pending]) -> Iterable[ShardStep]:
        """What may begin now; ``due`` are changes that their own tables have come to."""
        if self.groups.optimistic:
            return shard_group.next_steps(due, pending, self.groups, self.rounds, self.remnants)
        rounds = shard_ddl.complete(due, pending, self.groups)
        return [ShardStep(tuple(r), *shard_ddl.statement_of(r), {}) for r in rounds]

    def again(self, p: Pending, pending: Sequence[Pending]) -> ShardStep:
        """What a change executes that was begun here and has not ended."""
        if self.groups.optimistic:
            return shard_group.again(p, pending, self.groups, self.rounds, self.remnants)
        round_ = tuple(of_round(p, pending, self.rounds))
        return ShardStep(round_, *shard_ddl.statement_of(round_), {})

    def begun(self, steps: Iterable[ShardStep]) -> ShardGroups:
        """With what these begin."""
        rounds, remnants = dict(self.rounds), dict(self.remnants)
        for step in steps:
            rounds[step.round_[-1].ts] = tuple(p.ts for p in step.round_)
            for group, columns in step.remnants.items():
                remnants[group] = columns
                if not columns:
                    del remnants[group]
        return replace(self, rounds=rounds, remnants=remnants)
