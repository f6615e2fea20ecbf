"""What the owner needs of an upstream's change log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cdc.base.ts import Ts
from cdc.schema.catalog import Catalog
from owner.ddl import Ddl


class UpstreamLog(Protocol):
    """The log of one upstream, as the owner reads it."""

    def resolved_ts(self) -> Ts:
        """Nothing at or below it will still arrive."""

    def wait(self, above: Ts, timeout_s: float) -> Ts:
        """The resolved ts, as soon as it is greater than ``above`` or the time is over."""

    def has_ddl(self, above: Ts, upto: Ts) -> bool:
        """Whether there is a DDL with ``above < ts <= upto``, understood or not."""

    def ddls(self, above: Ts, upto: Ts) -> tuple[Ddl, ...]:
        """DDLs with ``above < ts <= upto``, in order."""

    def schemas(self) -> Catalog | None:
        """The schema behind the last of the DDLs that were asked for, if any were."""

    def forget_below(self, ts: Ts) -> None:
        """No changefeed will ask for DDLs at or below ``ts``."""


Logs = Callable[[str], UpstreamLog]
"""By name of the upstream; raises a transient error while there is no log yet."""
