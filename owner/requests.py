"""What operators ask of changefeeds, as values; URIs and configurations may hold passwords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc.base.ts import Ts


@dataclass(frozen=True, slots=True)
class NewChangefeed:
    """A changefeed that is to be made; without ``id`` it gets a random one.

    ``start_ts`` 0 is now, ``target_ts`` 0 is never. ``replaced_installation``: the id of an
    installation that is gone for good; what its changefeed of this id has left in the sink's ledger
    is removed.
    """

    id: str
    upstream: str
    sink_uri: str = field(repr=False)
    start_ts: Ts = 0
    target_ts: Ts = 0
    replica_config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    replaced_installation: str = ""


@dataclass(frozen=True, slots=True)
class NewCopy:
    """Rows that are to be copied for a changefeed that is there.

    ``tables`` are patterns of table rules, ``where`` is SQL of the upstream. The others are of rows
    that differ at the target, see ``cdc.coord.messages.CopyOrder``.
    """

    tables: Sequence[str]
    where: str = ""
    repairs: int = 0
    key: Sequence[str] = ()
    target_only: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True)
class ChangefeedUpdate:
    """What is to change of a changefeed: what is None stays."""

    sink_uri: str | None = field(default=None, repr=False)
    target_ts: Ts | None = None
    replica_config: Mapping[str, Any] | None = field(default=None, repr=False)
