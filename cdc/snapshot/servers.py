"""The servers of an upstream that rows are read from: one, or one for each node."""

from __future__ import annotations

import threading

from cdc.base.nodes import node_of
from cdc.coord.messages import UpstreamInfo
from cdc.schema.table import Table
from cdc.snapshot.reading import SourceServer
from cdc.source.position import UpstreamPosition
from cdc.source.pulled import Positions
from cdc.source.settings import SourceSettings


class SourceServers:
    """A :class:`SourceServer` for each server of an upstream. Raises as that does."""

    def __init__(self, info: UpstreamInfo, settings: SourceSettings, stop: threading.Event) -> None:
        self._info = info
        self._servers: dict[str, SourceServer] = {}
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
    def version(self) -> str:
        """The version of the first of them, as it was registered."""
        return self._info.server_version

    def of(self, table: Table) -> SourceServer:
        """The server that a table is on."""
        return self._servers[node_of(table.schema)]

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
