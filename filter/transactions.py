"""Transactions that are left out whole: ``ignore-txn-start-ts`` and ``ignore-txn-gtid``.

A transaction of a server without a TSO has but one ts, which our log gave it; ``cdc log events``
and error messages show it. Its DDL is ignored too, and still changes the tracked schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cdc.base.errors import InvalidError
from cdc.base.ts import Ts
from cdc.binlog.errors import GtidTextBad
from cdc.binlog.gtid_set import GtidSet, MariadbGtid
from cdc.changelog.index import RunKind, Runs
from cdc.coord.feed_config import FilterConfig

_MAX_TS = (1 << 63) - 1


class IgnoredTransactionInvalid(InvalidError):
    """An entry of ``ignore-txn-start-ts`` or ``ignore-txn-gtid`` that names no transaction."""

    code = "TG:ErrIgnoreTxnInvalid"


@dataclass(frozen=True)
class Transactions:
    """The transactions to leave out.

    ``gtids``: by GTID source, as the log's dictionary writes it (``uuid``, ``uuid:tag`` or
    ``domain-server``), the intervals of numbers with exclusive ends.
    """

    ts: frozenset[Ts] = frozenset()
    gtids: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, config: FilterConfig) -> Transactions:
        """Those of a configuration. Raises :class:`IgnoredTransactionInvalid`."""
        for i, ts in enumerate(config.ignore_txn_start_ts):
            if not 0 < ts <= _MAX_TS:
                raise IgnoredTransactionInvalid(
                    f"{ts} is no ts",
                    object=f"filter.ignore-txn-start-ts[{i}]",
                    hint="take the ts from the error message, or from 'cdc log events'",
                )
        gtids: dict[str, list[tuple[int, int]]] = {}
        for i, text in enumerate(config.ignore_txn_gtid):
            for source, pair in _intervals(text, f"filter.ignore-txn-gtid[{i}]"):
                gtids.setdefault(source, []).append(pair)
        found = {source: tuple(sorted(pairs)) for source, pairs in gtids.items()}
        return cls(frozenset(config.ignore_txn_start_ts), found)

    def __bool__(self) -> bool:
        return bool(self.ts or self.gtids)

    def ignores(self, ts: Ts, source: str, number: int) -> str:
        """Why one transaction is left out, or nothing; ``source`` may be empty, as of no GTID."""
        if ts in self.ts:
            return f"ignore-txn-start-ts has {ts}"
        if any(low <= number < high for low, high in self.gtids.get(source, ())):
            mark = ":" if source.count("-") > 1 else "-"
            return f"ignore-txn-gtid has {source}{mark}{number}"
        return ""

    def keep(self, runs: Runs, sources: Mapping[int, str]) -> NDArray[np.bool_]:
        """Which of the runs stay; ``sources`` is the log's dictionary of GTID sources.

        Rows and DDLs of ignored transactions go; all other kinds of runs stay.
        """
        gone = np.isin(runs.commit_ts, np.array(sorted(self.ts), np.int64))
        for number, source in sources.items():
            for low, high in self.gtids.get(source, ()):
                seq = runs.gtid_seq
                gone |= (runs.gtid_source == number) & (seq >= low) & (seq < high)
        gone &= (runs.kind == RunKind.DML) | (runs.kind == RunKind.DDL)
        return ~gone


def _intervals(text: str, place: str) -> list[tuple[str, tuple[int, int]]]:
    """One entry: a GTID of either family, or a set of MySQL's with ranges."""
    try:
        if ":" in text:
            found = GtidSet.parse(text).intervals
            return [(str(source), pair) for source, pairs in found.items() for pair in pairs]
        one = MariadbGtid.parse(text)
    except GtidTextBad as e:
        raise IgnoredTransactionInvalid(
            e.message,
            object=place,
            hint="write uuid:number, uuid:from-to, or of MariaDB domain-server-sequence",
        ) from None
    return [(f"{one.domain}-{one.server_id}", (one.sequence, one.sequence + 1))]
