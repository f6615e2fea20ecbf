"""How far the servers of a log are pulled, and when the log has what they had."""

from __future__ import annotations

from collections.abc import Mapping

from cdc.base.ts import Ts
from cdc.changelog import node_logs
from cdc.changelog.reader import ChangeLog
from cdc.source.merging import merged_to
from cdc.source.position import UpstreamPosition

Positions = Mapping[str, UpstreamPosition]
"""By node, ``""`` where there is one server."""


class PulledLogs:
    """The log of an upstream beside those of its nodes, which it opens; of one thread.

    ``log`` stays its owner's. Raises what opening and reading logs raises.
    """

    def __init__(self, log: ChangeLog, server_kind: str) -> None:
        self._log = log
        self._kind = server_kind
        self._nodes: dict[str, ChangeLog] = {}
        try:
            nodes = node_logs.load(log.folder)
            members = merged_to(log.state.position) if nodes else {}
            for node in nodes:
                if node.name in members:
                    self._nodes[node.name] = ChangeLog.open(log.folder / node.folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the nodes' logs back."""
        for node in self._nodes.values():
            node.close()

    @property
    def nodes(self) -> Mapping[str, ChangeLog]:
        """The logs of nodes, by name; none where there is one server."""
        return self._nodes

    def positions(self) -> dict[str, UpstreamPosition]:
        """Up to where each server is pulled: all that the log has resolved lies before these."""
        pulled = self._nodes or {"": self._log}
        return {
            name: UpstreamPosition.from_dict(log.refresh().position) for name, log in pulled.items()
        }

    def known(self, ends: Positions, upto: dict[str, Ts]) -> Ts | None:
        """A ts of the log that all before ``ends`` is at or below; None if it is not there yet.

        ``upto`` gets, by node, a ts of its own log behind its end, and is given again with the same
        ends: what nodes are pulled to moves on all the time, and what is merged never gets there.
        """
        pulled = self._nodes or {"": self._log}
        for node, end in ends.items():
            if node not in upto:
                state = pulled[node].refresh()
                if UpstreamPosition.from_dict(state.position).covers(end, self._kind):
                    upto[node] = state.resolved_ts
        if len(upto) < len(ends):
            return None
        state = self._log.refresh()
        merged = merged_to(state.position) if self._nodes else {"": state.resolved_ts}
        # One that has left meanwhile is merged as far as it ever will be.
        there = all(merged.get(n, ts) >= ts for n, ts in upto.items())
        return state.resolved_ts if there else None
