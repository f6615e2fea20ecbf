"""Who has asked the API for which change, and what came of it: kept in the store.

An entry is written before its change is made, and completed before its answer is given: a change
that cannot be written down is not made, and one whose outcome is not known shows that. Entries lie
in rings, so they are bounded without anything that clears them away; what a role may not do has a
ring of its own, since whoever may do nothing must not drive out what others did.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cdc.base.clock import Clock
from cdc.coord.contract import Put, Store, Unchanged
from cdc.coord.keys import Keys
from cdc.coord.messages import AuditEntry
from cdc.coord.stored import readable
from cdc.server.api_tokens import Caller
from owner.admin import StoreBusy

_log = logging.getLogger("audit")
_ATTEMPTS = 50


class Ring(StrEnum):
    """Changes that a role may ask for, and those that it may not."""

    CHANGES = "changes"
    FORBIDDEN = "forbidden"


PLACES = {Ring.CHANGES: 2_000, Ring.FORBIDDEN: 200}
"""How many entries of each are kept: the newest."""


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """What came of a change; ``outcome`` and the values as in ``AuditEntry``."""

    object: str
    outcome: str
    status: int
    request: Any = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class AuditLog:
    """The entries of a cluster; any capture, any thread. All methods may raise StoreFailed."""

    def __init__(self, store: Store, keys: Keys, clock: Clock, capture: str) -> None:
        self._store = store
        self._keys = keys
        self._clock = clock
        self._capture = capture

    def begin(
        self, caller: Caller, peer: str, action: str, object: str, ring: Ring = Ring.CHANGES
    ) -> AuditEntry:
        """Write down what is going to be tried. Raises StoreBusy too."""
        counter = self._keys.audit_next(ring)
        for _ in range(_ATTEMPTS):
            found = self._store.get(counter)
            number = int(found.value) if found else 0
            entry = AuditEntry(
                number=number,
                time_ms=self._clock.now_ms(),
                caller=caller.name,
                role=str(caller.role),
                peer=peer,
                capture=self._capture,
                action=action,
                object=object,
            )
            puts = [Put(counter, str(number + 1).encode()), self._put(entry, ring)]
            if self._store.txn([Unchanged(counter, found.mod_revision if found else 0)], puts):
                return entry
        raise StoreBusy("the audit log is written by too many at once", object=object)

    def end(self, begun: AuditEntry, came: AuditOutcome, ring: Ring = Ring.CHANGES) -> None:
        """Complete an entry, and log it."""
        entry = begun.model_copy(
            update={
                "object": came.object,
                "outcome": came.outcome,
                "status": came.status,
                "request": came.request,
                "before": came.before,
                "after": came.after,
            }
        )
        _log.info("%s", json.dumps(entry.model_dump(exclude={"format"}), ensure_ascii=False))
        put = self._put(entry, ring)
        kept = self._store.get(put.key)
        # So many others may have come meanwhile that its place has another.
        if kept is not None and _number(kept.value) == entry.number:
            self._store.txn([Unchanged(put.key, kept.mod_revision)], [put])

    def entries(self, since_ms: int = 0) -> list[AuditEntry]:
        """All that are kept and can be read, from the oldest on, of both rings."""
        kept = (self._store.range(self._keys.audit_prefix(ring))[1] for ring in Ring)
        found = (entry for keys in kept for _, entry in readable(keys, AuditEntry))
        chosen = (entry for entry in found if entry.time_ms >= since_ms)
        return sorted(chosen, key=lambda e: (e.time_ms, e.number))

    def _put(self, entry: AuditEntry, ring: Ring) -> Put:
        key = self._keys.audit(ring, entry.number % PLACES[ring])
        return Put(key, entry.model_dump_json().encode())


def _number(value: bytes) -> int:
    return int(json.loads(value)["number"])
