"""Which names things may have; here, since clients that write requests need no server for it."""

from __future__ import annotations

UPSTREAM_NAME = "[a-zA-Z0-9]+([-_][a-zA-Z0-9]+)*"
"""What the name of an upstream matches, as a whole."""

NODE_NAME = "[a-z0-9]+([-_][a-z0-9]+)*"
"""What the name of a node matches, as a whole: servers may fold it together with a database's."""

CARRIER_NAMES = (
    "timestamp",
    "commit-log",
    "original-timestamp",
    "gtid",
    "sequence",
    "gcn",
    "query-gcn",
)
"""Ways in which the nodes of a cluster have commit TSOs (``cdc.merge.carriers``)."""
