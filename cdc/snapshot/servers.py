"""The servers of an upstream that rows are read from: one, or one for each node."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from cdc.base.errors import TidegateError
from cdc.base.nodes import node_of
from cdc.coord.messages import UpstreamInfo
from cdc.schema.table import Table
from cdc.snapshot.reading import SourceServer
from cdc.snapshot.replica import ReplicaServer, replica_of
from cdc.source.position import UpstreamPosition
from cdc.source.pulled import Positions
from cdc.source.settings import SourceSettings

_MOST_GUESSED = 5000


class SourceServers:
    """A :class:`SourceServer` for each server of an upstream, or for its replica.

    ``replica`` is its URI, "" for none. ``newest`` tells how the upstream is reached now, which an
    operator may change while rows are read. Raises as :class:`SourceServer` and
    :class:`ReplicaServer`.
    """

    def __init__(
        self,
        info: UpstreamInfo,
        settings: SourceSettings,
        stop: threading.Event,
        replica: str = "",
        newest: Callable[[], UpstreamInfo] | None = None,
    ) -> None:
        self._info = info
        self._replica, self._newest = replica, newest
        self._servers: dict[str, SourceServer] = {}
        if replica:
            self._servers[""] = ReplicaServer(info, replica, settings, stop)
            return
        try:
            for name, server in info.servers().items():
                self._servers[name] = SourceServer(server, settings, stop)
        except BaseException:
            self.close()
            raise

    @property
    def kind(self) -> str:
        """``mysql`` or ``mariadb``: nodes are of one family."""
        return self._info.server_kind

    @property
    def logical_tables(self) -> Sequence[str]:
        """Patterns of the parts of its tables, where it has logical ones."""
        return self._info.logical_tables

    @property
    def version(self) -> str:
        """The version of the first of them, as it was registered."""
        return self._info.server_version

    def of(self, table: Table) -> SourceServer:
        """The server that a table is on."""
        return self._servers[node_of(table.schema)]

    def access_of(self, table: Table) -> UpstreamInfo:
        """The server that a table is on, as it is reached by who connects now."""
        known = self.of(table).info
        if self._newest is None:
            return known
        with suppress(TidegateError):
            newest = self._newest()
            if self._replica:
                return replica_of(newest, self._replica)
            return newest.servers().get(node_of(table.schema), known)
        return known

    def row_guesses(self, tables: Iterable[Table], where: str) -> dict[str, int]:
        """By ``schema.table`` how many rows its server guesses that a table has; 0 without a guess.

        With ``where``: for how many it is true.
        """
        by_server: defaultdict[str, list[Table]] = defaultdict(list)
        found: dict[str, int] = {}
        for table in tables:
            by_server[node_of(table.schema)].append(table)
            found[table.full_name] = 0
        if len(found) > _MOST_GUESSED:
            # Old servers open each table for it.
            return found
        for node, ours in by_server.items():
            found |= self._servers[node].row_guesses(ours, where)
        return found

    def wait_until_visible(self, positions: Positions) -> None:
        """Return when a new SELECT sees, on each server, all that lies before its position."""
        for name, position in positions.items():
            self._servers[name].wait_until_visible(position)

    def ends(self) -> dict[str, UpstreamPosition]:
        """The end of each binlog now: all that any SELECT before has seen lies below."""
        return {name: server.end() for name, server in self._servers.items()}

    def threads_running(self) -> int:
        """How many sessions do something now, on the server with the most."""
        return max(server.threads_running() for server in self._servers.values())

    def replica_lag_s(self) -> float:
        """Seconds that the server is behind which is behind the most."""
        return max(server.replica_lag_s() for server in self._servers.values())

    def close(self) -> None:
        """Give the connections back."""
        for server in self._servers.values():
            server.close()
