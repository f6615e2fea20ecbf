"""Spark's Python daemon for the negative control: rows are committed before their ledger row.

Whether a kill falls between the two commits is chance, so some are cut off there by hand.
"""

from __future__ import annotations

import itertools
from typing import Any

from cdc.base.ids import FeedId
from processor.spark.daemon import main
from sink.mysql import ledger

_CUT_EVERY = 20
_write = ledger.write
_commits = itertools.count(1)


def _apart(session: Any, feed: FeedId, *rest: Any) -> None:
    session.run("COMMIT")
    if next(_commits) % _CUT_EVERY == 0:
        raise ConnectionError("rows are committed, their ledger row is not")
    session.run("BEGIN")
    _write(session, feed, *rest)


ledger.write = _apart

if __name__ == "__main__":
    main()
