"""Which connection delivers into a bucket, so that one whose worker is gone can be ended.

A host that vanishes leaves its connections behind, with the ledger's rows locked, until the server
finds out (``wait_timeout``). Every deliverer therefore holds a lock of the server that is named
after changefeed (``FeedId``), bucket, epoch and the worker's slot (GET_LOCK): several workers of an
epoch may come to a bucket, one after the other, and keep their connections. Who holds it tells the
server itself, so that no connection but one of ours is ever ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import product

import pymysql

from cdc.base.ids import FeedId
from sink.mysql.connection import SinkSession
from sink.mysql.errors import is_lost

# The longest name that a lock may have is 64 characters.
_DIGEST = 10


def hold(session: SinkSession, feed: FeedId, bucket: int, epoch: int, slot: int) -> None:
    """Say that the session delivers into the bucket; a server that has no such locks is let be.

    Raises PyMySQL's errors of a lost connection.
    """
    try:
        session.rows("SELECT GET_LOCK(%s, 0) AS held", _name(feed, bucket, epoch, slot))
    except pymysql.err.Error as error:
        if is_lost(error):
            raise


def end(
    session: SinkSession, deliverers: Iterable[tuple[FeedId, int, int]], slots: int
) -> list[int]:
    """End the connections that deliver as (changefeed, bucket, epoch) say; their ids.

    ``slots``: how many workers there may be. PyMySQL's errors pass: the right to end another user's
    connection may be missing.
    """
    ended = []
    for (feed, bucket, epoch), slot in product(deliverers, range(slots)):
        found = session.rows("SELECT IS_USED_LOCK(%s) AS id", _name(feed, bucket, epoch, slot))
        holder = found[0]["id"]
        if holder is not None:
            session.run(f"KILL {int(holder)}")
            ended.append(int(holder))
    return ended


def _name(feed: FeedId, bucket: int, epoch: int, slot: int) -> str:
    digest = hashlib.blake2b(feed.text.encode(), digest_size=_DIGEST).hexdigest()
    return f"tidegate-{digest}-{bucket}-{epoch}-{slot}"
