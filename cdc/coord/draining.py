"""Telling a capture to own nothing, so that its process can be stopped without anybody noticing."""

from __future__ import annotations

from cdc.base.errors import InvalidError
from cdc.coord import election
from cdc.coord.contract import Put, Store, Unchanged
from cdc.coord.keys import Keys


class CaptureNotFound(InvalidError):
    """There is no capture of this id."""

    code = "TG:ErrCaptureNotExist"

    @classmethod
    def of(cls, capture: str) -> CaptureNotFound:
        """That of this id."""
        return cls(
            "there is no such capture",
            object=f"capture {capture}",
            hint="cdc cli capture list shows those that run",
        )


class NoOtherCapture(InvalidError):
    """The work of a capture has nowhere to go."""

    code = "TG:ErrNoOtherCapture"


def check_others(store: Store, keys: Keys, capture: str) -> None:
    """Raises NoOtherCapture unless there is one that can take over what ``capture`` does."""
    if not election.others(store, keys, capture):
        raise NoOtherCapture(
            "no other capture could take over what it does",
            object=f"capture {capture}",
            hint="start another one with the same store and cluster-id first",
        )


def drain(store: Store, keys: Keys, capture: str) -> None:
    """Have a capture hand over what it does, and take nothing again until it is started anew.

    Returns before it has. Raises CaptureNotFound, NoOtherCapture.
    """
    entry = store.get(keys.capture(capture))
    if entry is None:
        raise CaptureNotFound.of(capture)
    check_others(store, keys, capture)
    # One that has gone meanwhile has nothing to hand over.
    held = [Unchanged(keys.capture(capture), entry.mod_revision)]
    store.txn(held, [Put(keys.drained(capture), b"", entry.lease)])
