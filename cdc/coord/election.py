"""Who is the owner: a pure step, and the effect that carries it out.

The owner key is bound to the owner's lease; whoever creates it is the owner, and its create
revision fences everything an earlier owner may still try to write.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cdc.coord.contract import Delete, Held, Put, Store, StoredKey, Unchanged
from cdc.coord.keys import Keys, last


class Role(StrEnum):
    """What a capture is at the moment."""

    FOLLOWER = "follower"
    OWNER = "owner"


class ElectionAction(StrEnum):
    """What to do next."""

    NONE = "none"
    CAMPAIGN = "campaign"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One capture in the election; ``token`` is the fencing token while it is the owner."""

    capture: str
    lease: int
    role: Role = Role.FOLLOWER
    token: int = 0


def step(
    me: Candidate, owner: StoredKey | None, *, yields: bool = False
) -> tuple[Candidate, ElectionAction]:
    """The candidate after it has seen the owner key, and what it should do.

    One that ``yields`` leaves a free key to others.
    """
    if owner is None:
        action = ElectionAction.NONE if yields else ElectionAction.CAMPAIGN
        return Candidate(me.capture, me.lease), action
    if owner.lease == me.lease and owner.value.decode() == me.capture:
        return Candidate(
            me.capture, me.lease, Role.OWNER, owner.create_revision
        ), ElectionAction.NONE
    return Candidate(me.capture, me.lease), ElectionAction.NONE


def drained(store: Store, keys: Keys, capture: str) -> bool:
    """Whether a capture was told to own nothing."""
    return store.get(keys.drained(capture)) is not None


def all_drained(store: Store, keys: Keys) -> set[str]:
    """The captures that were told so."""
    return {last(entry.key) for entry in store.range(keys.drained(""))[1]}


def others(store: Store, keys: Keys, capture: str) -> bool:
    """Whether there is another capture that may be the owner."""
    known = {last(entry.key) for entry in store.range(keys.capture_prefix)[1]}
    return bool(known - all_drained(store, keys) - {capture})


def run(store: Store, keys: Keys, me: Candidate, *, ready: bool = True) -> Candidate:
    """One look at the owner key; campaigns if it is free.

    One that is not ``ready`` to deliver, or drained, leaves it to others where there are any.
    """
    owner = store.get(keys.owner)
    yields = False
    if owner is None and (not ready or drained(store, keys, me.capture)):
        yields = others(store, keys, me.capture)
    me, action = step(me, owner, yields=yields)
    if action is ElectionAction.CAMPAIGN:
        put = Put(keys.owner, me.capture.encode(), me.lease)
        store.txn([Unchanged(keys.owner, 0)], [put])
        me, _ = step(me, store.get(keys.owner))
    return me


def resign(store: Store, keys: Keys, me: Candidate) -> None:
    """Give the ownership back, if it is still ours."""
    if me.role is Role.OWNER:
        store.txn([Held(keys.owner, me.token)], [Delete(keys.owner)])
