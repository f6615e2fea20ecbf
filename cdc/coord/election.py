"""Who is the owner: a pure step, and the effect that carries it out.

The owner key is bound to the owner's lease; whoever creates it is the owner, and its create
revision fences everything an earlier owner may still try to write.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cdc.coord.contract import Delete, Held, Put, Store, StoredKey, Unchanged
from cdc.coord.keys import Keys


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


def step(me: Candidate, owner: StoredKey | None) -> tuple[Candidate, ElectionAction]:
    """The candidate after it has seen the owner key, and what it should do."""
    if owner is None:
        return Candidate(me.capture, me.lease), ElectionAction.CAMPAIGN
    if owner.lease == me.lease and owner.value.decode() == me.capture:
        return Candidate(
            me.capture, me.lease, Role.OWNER, owner.create_revision
        ), ElectionAction.NONE
    return Candidate(me.capture, me.lease), ElectionAction.NONE


def run(store: Store, keys: Keys, me: Candidate) -> Candidate:
    """One look at the owner key; campaigns if it is free."""
    me, action = step(me, store.get(keys.owner))
    if action is ElectionAction.CAMPAIGN:
        put = Put(keys.owner, me.capture.encode(), me.lease)
        store.txn([Unchanged(keys.owner, 0)], [put])
        me, _ = step(me, store.get(keys.owner))
    return me


def resign(store: Store, keys: Keys, me: Candidate) -> None:
    """Give the ownership back, if it is still ours."""
    if me.role is Role.OWNER:
        store.txn([Held(keys.owner, me.token)], [Delete(keys.owner)])
