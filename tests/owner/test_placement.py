"""Which capture has which upstream: decided alone, and in a cluster that loses and delays all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from owner.placement import (
    KeptRows,
    Member,
    Move,
    Placeable,
    PlacementReason,
    choose,
    plan,
    waits_in_vain,
)
from tests.seeds import seed

_EVEN_MS = 1000


def _moves(
    members: Sequence[Member], upstreams: Sequence[Placeable], owner: str = "a"
) -> tuple[Move, ...]:
    return plan(members, upstreams, owner, 0).moves


def test_a_new_upstream_goes_to_who_has_least_to_do() -> None:
    members = [Member("a"), Member("b")]
    upstreams = [Placeable("u", "a"), Placeable("v")]
    assert _moves(members, upstreams) == (Move("v", "b", PlacementReason.NEW),)


def test_the_owner_comes_first_where_all_is_equal() -> None:
    assert choose([Member("a"), Member("b")], [], Placeable("u"), "b") == "b"


def test_what_a_lost_capture_had_is_shared_among_the_others() -> None:
    members = [Member("a"), Member("b")]
    upstreams = [Placeable("u", "gone"), Placeable("v", "gone")]
    found = _moves(members, upstreams)
    assert {m.reason for m in found} == {PlacementReason.LOST}
    assert {m.capture for m in found} == {"a", "b"}


def test_who_has_the_log_goes_before_who_has_less_to_do_but_not_before_who_is_ready() -> None:
    upstreams = [Placeable("u", "gone"), Placeable("v", "b")]
    with_log = Member("b", logs=frozenset({"u"}))
    assert _moves([Member("a"), with_log], upstreams)[0].capture == "b"
    unready = replace(with_log, ready=False)
    assert _moves([Member("a"), unready], upstreams)[0].capture == "a"


def test_the_log_of_several_nodes_is_waited_for() -> None:
    bound = Placeable("u", "gone", bound=True)
    has = Member("b", ready=False, drained=True, logs=frozenset({"u"}))
    assert _moves([Member("a"), has], [bound])[0].capture == "b"
    # Nobody has it: nobody could go on.
    assert _moves([Member("a")], [bound]) == ()
    assert waits_in_vain(bound, [Member("a")])
    assert not waits_in_vain(bound, [Member("a"), has])
    assert not waits_in_vain(replace(bound, bound=False), [Member("a")])
    assert _moves([Member("a"), has], [replace(bound, capture="a")]) == (
        Move("u", "b", PlacementReason.LOG),
    )
    assert _moves([Member("a"), has], [replace(bound, capture="b")]) == ()


def test_a_cluster_that_was_just_started_waits_for_who_has_the_log() -> None:
    members, upstreams = [Member("a")], [Placeable("u", "gone"), Placeable("v")]

    def reasons(members: list[Member]) -> dict[str, PlacementReason]:
        return {m.upstream: m.reason for m in plan(members, upstreams, "a", 0, patient=True).moves}

    assert reasons(members) == {"v": PlacementReason.NEW}
    has = Member("b", logs=frozenset({"u"}))
    assert reasons([*members, has])["u"] is PlacementReason.LOST
    assert len(_moves(members, upstreams)) == 2


def test_a_drained_capture_gives_all_away_unless_nobody_could_take_it() -> None:
    upstreams = [Placeable("u", "a", asked=True)]
    drained = Member("a", drained=True)
    assert _moves([drained], upstreams) == ()
    assert _moves([drained, replace(drained, id="b")], upstreams) == ()
    (move,) = _moves([drained, Member("b")], upstreams)
    assert move == Move("u", "b", PlacementReason.DRAINED)


def test_rows_that_only_a_drained_capture_has_are_delivered_first() -> None:
    members = [Member("a", drained=True), Member("b")]
    rows = Placeable("u", "a", rows=KeptRows.DELIVERED)
    assert _moves(members, [rows, Placeable("v", "a")]) == (
        Move("v", "b", PlacementReason.DRAINED),
    )
    # What is only read is read again; and where its capture is gone, others go on.
    assert len(_moves(members, [replace(rows, rows=KeptRows.READ)])) == 1
    assert _moves([Member("b")], [rows]) == (Move("u", "b", PlacementReason.LOST),)


def test_unevenness_must_last_and_is_evened_one_by_one() -> None:
    members = [Member("a"), Member("b")]
    upstreams = [Placeable(n, "a") for n in "uvwx"]

    def at(now_ms: int, since_ms: int | None) -> tuple[tuple[Move, ...], int | None]:
        found = plan(members, upstreams, "a", now_ms, since_ms, even_after_ms=_EVEN_MS)
        return found.moves, found.uneven_since_ms

    assert at(5, None) == ((), 5)
    assert at(5 + _EVEN_MS - 1, 5) == ((), 5)
    moves, since = at(5 + _EVEN_MS, 5)
    assert len(moves) == 1
    assert since is None
    assert moves[0].capture == "b"
    assert plan(members, upstreams, "a", 10**9, 5).moves == (), "never, if it is not asked for"


@pytest.mark.parametrize(
    "fixed",
    [
        Placeable("u", "a", asked=True),
        Placeable("u", "a", bound=True),
        Placeable("u", "a", settled=False),
        Placeable("u", "a", rows=KeptRows.DELIVERED),
        Placeable("u", "a", rows=KeptRows.READ),
    ],
)
def test_what_stays_however_uneven(fixed: Placeable) -> None:
    members = [Member("a", logs=frozenset({"u", "v"})), Member("b")]
    upstreams = [fixed, replace(fixed, name="v")]
    assert plan(members, upstreams, "a", 10**9, 0, even_after_ms=1).moves == ()


@dataclass
class Cluster:
    """Captures that come and go, and an owner whose words come late, twice, or not at all."""

    chosen: random.Random
    members: dict[str, Member] = field(default_factory=dict)
    upstreams: dict[str, Placeable] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    # Whose key it is; one of a capture that has died stays until its session is over.
    held: dict[str, str] = field(default_factory=dict)
    dying: set[str] = field(default_factory=set)
    on_the_way: list[tuple[int, Move]] = field(default_factory=list)
    uneven_since_ms: int | None = None
    now_ms: int = 0
    made: int = 0
    moved: int = 0

    def disturb(self) -> None:
        """Whatever may happen."""
        kind = self.chosen.randrange(9)
        alive = sorted(self.members.keys() - self.dying)
        if kind == 0 and len(self.members) < 5:
            self.made += 1
            self.members[f"c{self.made}"] = Member(f"c{self.made}", ready=False)
        elif kind == 1 and len(alive) > 1:
            self.dying.add(self.chosen.choice(alive))
        elif kind == 2 and alive:
            name = self.chosen.choice(alive)
            self.members[name] = replace(self.members[name], drained=True)
        elif kind == 3 and len(self.upstreams) < 8:
            self.made += 1
            name = f"u{self.made}"
            bound = self.chosen.random() < 0.2
            self.upstreams[name] = Placeable(
                name, weight=self.chosen.choice((1, 1, 3)), bound=bound
            )
            self.numbers[name] = 0
        elif kind == 4 and len(self.upstreams) > 1:
            name = self.chosen.choice(sorted(self.upstreams))
            del self.upstreams[name], self.numbers[name]
        elif kind == 5 and alive and self.upstreams:
            name = self.chosen.choice(sorted(self.upstreams))
            found = self.upstreams[name]
            target = self.chosen.choice(alive)
            if not found.bound and not self.members[target].drained:
                self._place(Move(name, target, PlacementReason.ASKED))
        else:
            self.end_sessions()

    def end_sessions(self) -> None:
        """What died is gone, with its keys."""
        for name in self.dying:
            self.members.pop(name, None)
            self.held = {u: c for u, c in self.held.items() if c != name}
        self.dying.clear()

    def decide(self, *, lossy: bool) -> int:
        """A turn of the owner; how many moves it wants."""
        seen = [
            replace(u, settled=self.held.get(u.name) == u.capture) for u in self.upstreams.values()
        ]
        owner = min(self.members.keys() - self.dying, default="")
        found = plan(
            list(self.members.values()), seen, owner, self.now_ms, self.uneven_since_ms,
            even_after_ms=_EVEN_MS,
        )  # fmt: skip
        self.uneven_since_ms = found.uneven_since_ms
        for move in found.moves:
            if lossy and self.chosen.random() < 0.3:
                continue
            twice = 2 if lossy and self.chosen.random() < 0.3 else 1
            self.on_the_way += [(self.numbers[move.upstream], move)] * twice
        if lossy and self.chosen.random() < 0.5:
            return len(found.moves)
        self.chosen.shuffle(self.on_the_way)
        for number, move in self.on_the_way:
            # It is written only if nobody has placed it since.
            if self.numbers.get(move.upstream) == number:
                self._place(move)
        self.on_the_way.clear()
        return len(found.moves)

    def _place(self, move: Move) -> None:
        asked = move.reason is PlacementReason.ASKED
        known = self.upstreams[move.upstream]
        self.upstreams[move.upstream] = replace(known, capture=move.capture, asked=asked)
        self.numbers[move.upstream] += 1
        self.moved += 1

    def act(self, *, lossy: bool) -> None:
        """Captures take and let go, by what they see of the store."""
        for name in sorted(self.members.keys() - self.dying):
            if lossy and self.chosen.random() < 0.4:
                continue
            member = self.members[name]
            for upstream, holder in list(self.held.items()):
                known = self.upstreams.get(upstream)
                if holder == name and (known is None or known.capture != name):
                    del self.held[upstream]
            for upstream, known in self.upstreams.items():
                if known.capture == name and upstream not in self.held:
                    has = upstream in member.logs
                    exists = any(upstream in m.logs for m in self.members.values())
                    self.held[upstream] = name
                    if not known.bound or has or not exists:
                        self._make_log(upstream, name)
            self.members[name] = replace(self.members[name], ready=True)

    def _make_log(self, upstream: str, name: str) -> None:
        for other, member in self.members.items():
            logs = member.logs - {upstream} | ({upstream} if other == name else set())
            self.members[other] = replace(member, logs=frozenset(logs))


@pytest.mark.parametrize("n", range(40))
def test_a_cluster_comes_to_rest_whatever_happened(n: int) -> None:
    cluster = Cluster(random.Random(seed() * 1000 + n))
    cluster.members["c0"] = Member("c0")
    for _ in range(150):
        cluster.now_ms += cluster.chosen.randrange(400)
        cluster.disturb()
        cluster.decide(lossy=True)
        cluster.act(lossy=True)
    cluster.end_sessions()
    for _ in range(60):
        cluster.now_ms += _EVEN_MS
        cluster.decide(lossy=False)
        cluster.act(lossy=False)
    before = cluster.moved
    for _ in range(10):
        cluster.now_ms += _EVEN_MS
        assert cluster.decide(lossy=False) == 0, "it goes to and fro"
        cluster.act(lossy=False)
    assert cluster.moved == before
    members, upstreams = cluster.members, cluster.upstreams
    waits = {u.name for u in upstreams.values() if u.bound and u.capture not in members}
    assert not any(m.logs & waits for m in members.values())
    placed = {u.name: u.capture for u in upstreams.values() if u.name not in waits}
    assert cluster.held == placed
    able = [m.id for m in members.values() if not m.drained] or sorted(members)
    for upstream in upstreams.values():
        assert upstream.bound or upstream.capture in able
        has = [m.id for m in members.values() if upstream.name in m.logs]
        assert not upstream.bound or not has or upstream.capture in has
    if all(m.drained for m in members.values()):
        return
    free = [u for u in upstreams.values() if not u.bound and not u.asked]
    loads = {c: sum(u.weight for u in upstreams.values() if u.capture == c) for c in able}
    for upstream in free:
        gap = loads[upstream.capture] - min(loads.values())
        assert gap <= upstream.weight, f"{loads}: {upstream} could move"


def test_the_order_of_what_is_seen_changes_nothing() -> None:
    chosen = random.Random(seed())
    members = [Member(f"c{n}", ready=n % 2 == 0) for n in range(4)]
    upstreams = [Placeable(f"u{n}", chosen.choice(["", "gone", "c1"])) for n in range(9)]
    wanted = _moves(members, upstreams, "c0")
    for _ in range(20):
        chosen.shuffle(members)
        chosen.shuffle(upstreams)
        assert _moves(members, upstreams, "c0") == wanted
