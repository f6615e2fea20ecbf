"""Words of TiCDC's command line that are none here, and what to use instead."""

from __future__ import annotations

from collections.abc import Sequence

_LEAVE = "leave it out"
_HOLDS_NOBODY_UP = "no server is held up: the change log keeps what changefeeds need"
_NO_REDO = "a target needs none: rows and ledger are one transaction there"
_NO_REGIONS = (
    "a table has no regions: how it is spread is what `partition` of sink.dispatchers says"
)
COMMANDS = {
    ("cli", "unsafe", "reset"): "stop the server and remove its data directory, or the keys of"
    " the cluster in etcd",
    ("cli", "unsafe", "resolve-lock"): "there are no locks of TiKV to resolve",
    ("cli", "unsafe", "delete-service-gc-safepoint"): _HOLDS_NOBODY_UP,
    ("cli", "unsafe", "verify-gc-safepoint"): _HOLDS_NOBODY_UP,
    ("cli", "changefeed", "split-table-by-region-count"): _NO_REGIONS,
    ("cli", "changefeed", "move-split-table"): _NO_REGIONS,
    ("cli", "changefeed", "merge-table"): _NO_REGIONS,
    ("cli", "changefeed", "cyclic"): "there is no replication in circles: filter by tables, or by"
    " transactions (filter.ignore-txn-gtid)",
    ("cli", "configure-credentials"): "`cdc cli token create` makes a token;"
    " a profile keeps it (docs/client.md)",
    ("redo", "apply"): _NO_REDO,
    ("redo", "meta"): _NO_REDO,
    ("redo",): _NO_REDO,
}
"""By the words of a command."""
FLAGS = {
    ("cli", "--pd"): "commands ask a server, not its store: give --server",
    ("cli", "--schema-registry"): "Avro is not among the protocols; " + _LEAVE,
    ("cli", "--disable-gc-check"): "a start that the change log does not reach is always refused; "
    + _LEAVE,
    ("cli", "--namespace"): "changefeeds have one space of names; " + _LEAVE,
    ("cli", "--keyspace"): "changefeeds have one space of names; " + _LEAVE,
    ("cli", "--sort-engine"): "the change log is in order already; " + _LEAVE,
    ("cli", "--sort-dir"): "the change log is in order already; " + _LEAVE,
    ("cli", "--tz"): "times in rows are those of the upstream; " + _LEAVE,
    ("server", "--sort-dir"): "the change log is in order already: --data-dir has it",
    ("server", "--tz"): "times in rows are those of the upstream; " + _LEAVE,
    ("server", "--gc-ttl"): "the change log keeps what changefeeds need, as [changelog] of"
    " server.toml bounds it; " + _LEAVE,
    ("server", "--newarch"): "there is one architecture; " + _LEAVE,
}
"""By the first word of a command, and the flag."""


def hint(words: Sequence[str]) -> str:
    """What to use in place of the first word of TiCDC's among these that is none here; "" if none.

    ``words``: a command line that was refused, without the program's name.
    """
    verbs = tuple(w for w in words if not w.startswith("-"))
    for length in range(len(verbs), 0, -1):
        if verbs[:length] in COMMANDS:
            return f"{' '.join(verbs[:length])}: {COMMANDS[verbs[:length]]}"
    for word in words:
        flag = word.partition("=")[0]
        if verbs and (verbs[0], flag) in FLAGS:
            return f"{flag}: {FLAGS[verbs[0], flag]}"
    return ""
