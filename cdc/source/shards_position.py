"""Where the merged log of shards goes on, and where another one in its place does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cdc.base.position import Cut, LastOfNode, TransactionName, cut_of
from cdc.base.ts import Ts


class MergedLast(NamedTuple):
    """The last transaction that was merged of a node, and the ts that the node's log gives it."""

    ts: Ts
    last: LastOfNode


@dataclass(frozen=True, slots=True)
class ShardsPosition:
    """What the manifest of the merged log says, and the anchors of it.

    ``merged``: by node, up to which ts of its log all is merged. ``last``: the last transaction of
    each node that has one; also of nodes that have left. ``newest``: the last transaction of all,
    None where there is none. ``again``: nodes whose log begins below what was merged: up to their
    ``last`` it is read in vain. ``known``: whether ``last`` is; versions before cuts had none.
    """

    merged: Mapping[str, Ts]
    last: Mapping[str, MergedLast] = field(default_factory=dict)
    newest: TransactionName | None = None
    again: frozenset[str] = frozenset()
    known: bool = True

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        found: dict[str, Any] = {"nodes": dict(self.merged)}
        if self.known:
            found["last"] = {name: [ts, *last] for name, (ts, last) in self.last.items()}
        if self.newest is not None:
            found["newest"] = self.newest.to_list()
        return found | ({"again": sorted(self.again)} if self.again else {})

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> ShardsPosition:
        """Inverse of :meth:`to_dict`; also of what versions before cuts wrote."""
        newest = value.get("newest")
        return cls(
            {str(name): int(ts) for name, ts in value["nodes"].items()},
            {
                str(name): MergedLast(int(ts), LastOfNode(str(source), int(number), bool(alone)))
                for name, (ts, source, number, alone) in value.get("last", {}).items()
            },
            TransactionName.of(newest) if newest is not None else None,
            frozenset(value.get("again", ())),
            "last" in value,
        )

    def cut(self) -> Cut:
        """The cut at which it stands."""
        return cut_of({name: last for name, (_, last) in self.last.items()})

    def name(self, begin: Ts) -> TransactionName:
        """The last transaction with that cut; none since ``begin`` where there is none."""
        newest = self.newest or TransactionName.none_since(begin)
        return newest._replace(cut=self.cut())

    def anew(self, begins: Mapping[str, Ts]) -> ShardsPosition:
        """Where a log over other logs of the same nodes goes on as that at this position does.

        ``begins``: by node, from which ts on its other log has all, as the log before called it.
        """
        read_again = {
            name
            for name, begin in begins.items()
            if name in self.again or (name in self.last and self.last[name].ts > begin)
        }
        return ShardsPosition(
            dict(begins), self.last, self.newest, frozenset(read_again), self.known
        )
