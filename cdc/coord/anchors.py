"""What the store knows of an upstream's log: which one it is, and where another could begin.

Of a schema snapshot the store has pieces of its compressed JSON, since etcd takes values of a
megabyte at most. An anchor is written behind its pieces, so it never names one that is not there.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cdc.base.errors import DefiniteError
from cdc.base.ts import Ts
from cdc.coord.contract import MAX_OPS, Compare, Delete, Op, Put, Store, Unchanged
from cdc.coord.keys import Keys
from cdc.coord.messages import Anchor, CurrentLog
from cdc.coord.stored import read, readable

_PIECE = 256 << 10
# Of a changefeed that stands still: between two anchors lies what a new log pulls in vain.
_MOST = 64


class AnchorLost(DefiniteError):
    """The store does not have all of an anchor's schema."""

    code = "TG:ErrAnchorLost"


@dataclass(frozen=True, slots=True)
class Anchors:
    """Of one upstream."""

    store: Store
    keys: Keys
    upstream: str

    def current(self) -> tuple[int, CurrentLog | None]:
        """The log that positions belong to, and the revision of its key (0: none yet)."""
        entry = self.store.get(self.keys.current_log(self.upstream))
        return (0, None) if entry is None else (entry.mod_revision, read(entry, CurrentLog))

    def make_current(
        self, log: str, capture: str, revision: int, also: Sequence[Compare] = ()
    ) -> bool:
        """Say that it is this log, unless somebody else has said another one since."""
        key = self.keys.current_log(self.upstream)
        value = CurrentLog(log=log, capture=capture).model_dump_json().encode()
        return self.store.txn([Unchanged(key, revision), *also], [Put(key, value)])

    def disown(self, log: str, capture: str) -> None:
        """Say that this log is not the one: positions do not lie in it where their ts says.

        Nor do the anchors that were written from it. Those of an earlier version do not say which
        log that was: all of ``capture`` count as such.
        """
        revision, current = self.current()
        if current is None or current.log != log:
            return
        gone = [
            Delete(self.keys.anchor(self.upstream, a.ts))
            for a in self.all()
            if a.log == log or (not a.log and a.capture and a.capture == capture)
        ]
        for first in range(0, len(gone), MAX_OPS):
            self.store.txn([], gone[first : first + MAX_OPS])
        key = self.keys.current_log(self.upstream)
        value = CurrentLog(log="", capture=capture).model_dump_json().encode()
        self.store.txn([Unchanged(key, revision)], [Put(key, value)])

    def all(self) -> list[Anchor]:
        """Rising by ts; those that cannot be read are left out."""
        _, entries = self.store.range(self.keys.anchor_prefix(self.upstream))
        return [anchor for _, anchor in readable(entries, Anchor)]

    def schema(self, anchor: Anchor) -> dict[str, Any]:
        """The schema snapshot of an anchor. Raises AnchorLost."""
        key = self.keys.schema(self.upstream, anchor.schema_ts, 0).rpartition("/")[0] + "/"
        _, entries = self.store.range(key)
        if len(entries) < anchor.chunks:
            raise AnchorLost(
                f"{len(entries)} of {anchor.chunks} pieces of its schema are there",
                object=f"upstream {self.upstream}",
                position=f"ts {anchor.ts}",
                hint="restore the store; without it, remove the upstream and create it anew",
            )
        found: dict[str, Any] = json.loads(
            zlib.decompress(b"".join(e.value for e in entries[: anchor.chunks]))
        )
        return found

    def add(
        self,
        ts: Ts,
        position: dict[str, Any],
        schema_ts: Ts,
        snapshot: dict[str, Any] | None,
        held: Sequence[Compare] = (),
        capture: str = "",
        log: str = "",
        prepared: Sequence[str] = (),
    ) -> bool:
        """Write an anchor while ``held`` holds; whether it did.

        ``snapshot`` is the schema at ``schema_ts``, None if an anchor before this has it.
        ``capture`` pulls the log, which is ``log``; the first anchor is nobody's. ``prepared`` as
        :class:`~cdc.coord.messages.Anchor` has it.
        """
        chunks = 0
        if snapshot is None:
            chunks = next((a.chunks for a in self.all() if a.schema_ts == schema_ts), 0)
        else:
            data = zlib.compress(json.dumps(snapshot).encode(), 6)
            for chunks, at in enumerate(range(0, len(data), _PIECE), 1):
                key = self.keys.schema(self.upstream, schema_ts, chunks - 1)
                if not self.store.txn(held, [Put(key, data[at : at + _PIECE])]):
                    return False
        if not chunks:
            return False
        anchor = Anchor(
            ts=ts,
            position=position,
            schema_ts=schema_ts,
            chunks=chunks,
            capture=capture,
            log=log,
            prepared=list(prepared),
        )
        put = Put(self.keys.anchor(self.upstream, ts), anchor.model_dump_json().encode())
        return self.store.txn(held, [put])

    def trim(self, needed_ts: Ts, held: Sequence[Compare] = (), log: str = "") -> None:
        """Remove anchors from which nothing would begin, as all above ``needed_ts`` is needed.

        The last one that is not of ``log``, which is pulled now, stays: if that log is disowned,
        its anchors go with it, and another one begins there.
        """
        anchors = self.all()
        gone = spare([a.ts for a in anchors], needed_ts)
        gone -= set([a.ts for a in anchors if a.ts <= needed_ts and a.log != log][-1:])
        if not gone:
            return
        ops: list[Op] = [Delete(self.keys.anchor(self.upstream, ts)) for ts in gone]
        left = {a.schema_ts for a in anchors if a.ts not in gone}
        for entry in self.store.range(self.keys.schema_prefix(self.upstream))[1]:
            # That of the newest may be of an anchor that is about to be written.
            if (ts := int(entry.key.split("/")[-2])) not in left and ts < max(left, default=0):
                ops.append(Delete(entry.key))
        for first in range(0, len(ops), MAX_OPS):
            self.store.txn(held, ops[first : first + MAX_OPS], durable=False)

    def clear(self) -> None:
        """Remove all that is known of the upstream's log."""
        ops: list[Op] = [Delete(self.keys.current_log(self.upstream))]
        for prefix in (self.keys.anchor_prefix, self.keys.schema_prefix):
            ops += [Delete(e.key) for e in self.store.range(prefix(self.upstream))[1]]
        for first in range(0, len(ops), MAX_OPS):
            self.store.txn([], ops[first : first + MAX_OPS])


def spare(anchors: Sequence[Ts], needed_ts: Ts) -> set[Ts]:
    """Which of the anchors (rising) may go: all before the last one at or below ``needed_ts``.

    Of more than a few others those go that lie closest to their neighbours.
    """
    begin = max((i for i, ts in enumerate(anchors) if ts <= needed_ts), default=0)
    gone, left = set(anchors[:begin]), list(anchors[begin:])
    while len(left) > _MOST:
        closest = min(range(1, len(left) - 1), key=lambda i: left[i + 1] - left[i - 1])
        gone.add(left.pop(closest))
    return gone
