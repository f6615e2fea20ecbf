"""Which GTIDs were pulled: advanced by whole batches of (source, sequence) pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdc.base.position import TransactionName
from cdc.binlog.gtid_set import GtidSet, GtidSource, MariadbGtid, MariadbGtidPosition


def gtid_text(server_kind: str, name: TransactionName) -> str:
    """The GTID of a transaction as a set or position of it alone, in the server's own form."""
    mark = "-" if server_kind == "mariadb" else ":"
    return f"{name.source}{mark}{name.sequence}"


class GtidTracker:
    """``text`` is the server's own form; ``None`` where the upstream has no GTIDs."""

    def __init__(self, server_kind: str, text: str | None) -> None:
        self._mariadb = server_kind == "mariadb"
        self._off = text is None
        self._set = GtidSet() if self._mariadb or text is None else GtidSet.parse(text)
        self._position = MariadbGtidPosition.parse(text or "") if self._mariadb else None

    @property
    def text(self) -> str | None:
        """The position as text."""
        if self._off:
            return None
        return str(self._position) if self._position is not None else str(self._set)

    def add(self, transactions: NDArray[np.int64], sources: dict[int, str]) -> None:
        """``transactions`` int64[n, 2] of source id and sequence, in order of the binlog."""
        if self._off or not len(transactions):
            return
        for number in np.unique(transactions[:, 0]):
            text = sources[int(number)]
            sequence = transactions[transactions[:, 0] == number, 1]
            if self._position is not None:
                continue
            ordered = np.sort(sequence)
            cuts = np.flatnonzero(np.diff(ordered) > 1)
            starts = ordered[np.concatenate(([0], cuts + 1))]
            ends = ordered[np.concatenate((cuts, [len(ordered) - 1]))] + 1
            uuid, _, tag = text.partition(":")
            pairs = tuple((int(a), int(b)) for a, b in zip(starts, ends, strict=True))
            self._set = self._set.union(GtidSet({GtidSource(uuid, tag): pairs}))
        if self._position is not None:
            self._advance_domains(transactions, sources)

    def _advance_domains(self, transactions: NDArray[np.int64], sources: dict[int, str]) -> None:
        # The last of each source is enough; within a domain the order of the log counts.
        _, first = np.unique(transactions[::-1, 0], return_index=True)
        last = len(transactions) - 1 - first
        position = self._position
        assert position is not None
        for i in np.sort(last):
            domain, server = sources[int(transactions[i, 0])].split("-")
            gtid = MariadbGtid(int(domain), int(server), int(transactions[i, 1]))
            position = position.advance(gtid)
        self._position = position
