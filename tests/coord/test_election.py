"""One owner at a time, fenced by its token."""

from __future__ import annotations

from pathlib import Path

from cdc.coord.contract import Held, Put, StoredKey
from cdc.coord.election import Candidate, ElectionAction, Role, resign, run, step
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from tests.coord.test_contract import ManualClock


def test_step() -> None:
    me = Candidate("a", 7)
    assert step(me, None) == (me, ElectionAction.CAMPAIGN)
    mine = StoredKey("/owner", b"a", 5, 5, 7)
    assert step(me, mine) == (Candidate("a", 7, Role.OWNER, 5), ElectionAction.NONE)
    owner = Candidate("a", 7, Role.OWNER, 5)
    assert step(owner, StoredKey("/owner", b"b", 9, 9, 8)) == (me, ElectionAction.NONE)
    # our own earlier session is not us
    assert step(me, StoredKey("/owner", b"a", 5, 5, 6)) == (me, ElectionAction.NONE)
    assert step(owner, None) == (me, ElectionAction.CAMPAIGN)


def test_takeover_fences_the_old_owner(tmp_path: Path) -> None:
    clock, keys = ManualClock(), Keys("c1")
    store = EmbeddedStore(tmp_path / "meta.db", clock)
    a = Candidate("a", store.grant(10))
    a = run(store, keys, a)
    assert a.role is Role.OWNER
    clock.t += 5
    b = Candidate("b", store.grant(10))
    b = run(store, keys, b)
    assert b.role is Role.FOLLOWER
    clock.t += 6
    b = run(store, keys, b)
    assert b.role is Role.FOLLOWER
    store.keepalive(b.lease)
    clock.t += 10
    store.keepalive(b.lease)
    b = run(store, keys, b)
    assert b.role is Role.OWNER
    assert b.token > a.token
    assert not store.txn([Held(keys.owner, a.token)], [Put("/x", b"stale")])
    resign(store, keys, a)
    assert store.get(keys.owner) is not None
    resign(store, keys, b)
    assert store.get(keys.owner) is None
    store.close()
