"""How many rows of each content a table without a key has more, or fewer, than when it was read.

No key says which row the log touches, but all of a row does: rows of one content are the same to
everybody, so that only their number counts. What the log takes away is left out of what was read,
and what it adds comes behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.errors import DefiniteError
from cdc.base.ts import Ts
from cdc.binlog.table_map import TableMap
from cdc.changelog.reader import ChangeLog
from cdc.schema.table import Table
from cdc.snapshot.touched import NO_IMAGE, Hashes, as_one, changes


class SnapshotRowsDiffer(DefiniteError):
    """The log takes rows away that were not among those that were read."""

    code = "TG:ErrSnapshotRowsDiffer"


@dataclass(frozen=True)
class Balance:
    """What rows of the log make of the rows of one table that has no key.

    ``keys`` uint64[n, 2] are hashes of whole rows, each once, rising; ``fewer`` int64[n] how many
    of it go, 0 where more come. ``images`` int64[m, 4] say where those lie that come, as in
    ``cdc.snapshot.touched.Touched``: one of each, as often as it comes.
    """

    keys: Hashes
    fewer: NDArray[np.int64]
    images: NDArray[np.int64]

    @classmethod
    def none(cls) -> Balance:
        """Nothing was changed."""
        empty = np.empty((0, 4), np.int64)
        return cls(np.empty((0, 2), np.uint64), np.empty(0, np.int64), empty)

    def leaving(self) -> Leaving:
        """What is to be left out of the rows that were read."""
        return Leaving(self)


class Leaving:
    """Leaves out so many rows of each content as the log takes away, the first that come."""

    def __init__(self, balance: Balance) -> None:
        gone = balance.fewer > 0
        self._keys = as_one(balance.keys[gone])
        self._firsts = balance.keys[gone, 0]
        self._left = balance.fewer[gone]

    @property
    def nothing(self) -> bool:
        """Whether all rows that are to come stay."""
        return not self._left.any()

    def kept(self, hashes: Hashes) -> NDArray[np.bool_]:
        """bool[k]: which of these rows (uint64[k, 2]), the next ones, are not left out."""
        kept = np.ones(len(hashes), np.bool_)
        likely = np.flatnonzero(np.isin(hashes[:, 0], self._firsts))
        if not len(likely):
            return kept
        count = len(self._keys)
        # Rows and keys of one content have one number.
        both = np.concatenate([self._keys, as_one(hashes[likely])])
        number = np.unique(both, return_inverse=True)[1].reshape(-1)
        left = np.zeros(len(both), np.int64)
        left[number[:count]] = self._left
        ours = number[count:]
        order = np.argsort(ours, kind="stable")
        starts = np.flatnonzero(np.diff(ours[order], prepend=-1))
        lengths = np.diff(np.append(starts, len(order)))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - np.repeat(starts, lengths)
        gone = rank < left[ours]
        kept[likely[gone]] = False
        self._left = self._left - np.bincount(ours[gone], minlength=len(both))[number[:count]]
        return kept

    def check(self, table: str) -> None:
        """Raise SnapshotRowsDiffer if rows that the log takes away have not come."""
        if missing := int(self._left.sum()):
            raise SnapshotRowsDiffer(
                f"the log takes {missing} rows away that were not read: rows of a table without a"
                " key are told by all of their values, and some are logged otherwise than they are"
                " read",
                object=table,
                hint="add a key to the table, or leave it out of snapshot.tables; values of JSON"
                " are such",
            )


def balance(log: ChangeLog, table: Table, ids: Mapping[int, TableMap], lo: Ts, hi: Ts) -> Balance:
    """What rows with ``lo < ts <= hi`` make of a table that stays as it is between these ts.

    Memory, ``ids`` and errors as of :func:`cdc.snapshot.touched.touched`.
    """
    keys, places = changes(log, table, range(len(table.columns)), ids, lo, hi)
    if not len(keys):
        return Balance.none()
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    keys, places = keys[order], places[order]
    firsts = np.ones(len(keys), np.bool_)
    firsts[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    comes = places[:, 2] != NO_IMAGE
    starts = np.flatnonzero(firsts)
    more: NDArray[np.int64] = np.add.reduceat(np.where(comes, 1, -1), starts)
    return Balance(keys[firsts], np.maximum(-more, 0), _coming(more, starts, comes, places, order))


def _coming(
    more: NDArray[Any],
    starts: NDArray[Any],
    comes: NDArray[np.bool_],
    places: NDArray[np.int64],
    order: NDArray[Any],
) -> NDArray[np.int64]:
    """An image of each content that there are more of, as often as it comes, in the log's order."""
    first = np.full(len(comes), len(comes), np.int64)
    first[comes] = np.flatnonzero(comes)
    at = np.minimum.reduceat(first, starts)[more > 0]
    at = at[np.argsort(order[at], kind="stable")]
    owner = np.searchsorted(starts, at, side="right") - 1
    found: NDArray[np.int64] = np.repeat(places[at], more[owner], axis=0)
    return found
