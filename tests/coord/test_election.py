"""One owner at a time, fenced by its token."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.coord.contract import Held, Put, StoredKey
from cdc.coord.draining import CaptureNotFound, NoOtherCapture, drain
from cdc.coord.election import Candidate, ElectionAction, Role, drained, resign, run, step
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import CaptureInfo
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
    assert step(me, None, yields=True) == (me, ElectionAction.NONE)
    # who is it stays it
    assert step(owner, mine, yields=True) == (owner, ElectionAction.NONE)


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


def _registered(store: EmbeddedStore, keys: Keys, name: str) -> Candidate:
    lease = store.grant(1000)
    info = CaptureInfo(id=name, address="x").model_dump_json().encode()
    store.txn([], [Put(keys.capture(name), info, lease)])
    return Candidate(name, lease)


def test_one_that_is_not_ready_leaves_it_to_others_while_there_are_any(tmp_path: Path) -> None:
    keys = Keys("c1")
    store = EmbeddedStore(tmp_path / "meta.db", ManualClock())
    a = _registered(store, keys, "a")
    b = _registered(store, keys, "b")
    assert run(store, keys, a, ready=False).role is Role.FOLLOWER
    assert run(store, keys, b).role is Role.OWNER
    store.revoke(b.lease)
    # it has gone, and there is nobody else
    assert run(store, keys, a, ready=False).role is Role.OWNER
    store.close()


def test_one_that_is_drained_is_the_owner_only_where_there_is_no_other(tmp_path: Path) -> None:
    keys = Keys("c1")
    store = EmbeddedStore(tmp_path / "meta.db", ManualClock())
    a, b = _registered(store, keys, "a"), _registered(store, keys, "b")
    drain(store, keys, "a")
    assert run(store, keys, a).role is Role.FOLLOWER
    with pytest.raises(NoOtherCapture):
        drain(store, keys, "b")
    with pytest.raises(CaptureNotFound):
        drain(store, keys, "c")
    # an id that begins like another one's is another one
    assert not drained(store, keys, "")
    assert run(store, keys, b).role is Role.OWNER
    store.revoke(b.lease)
    assert run(store, keys, a).role is Role.OWNER
    # it goes with the capture
    store.revoke(a.lease)
    assert not drained(store, keys, "a")
    store.close()
