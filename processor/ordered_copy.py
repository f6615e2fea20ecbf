"""The copy of rows that the owner has ordered for a changefeed that runs, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cdc.base.position import Stand
from cdc.base.ts import Ts
from cdc.coord.messages import CopyOrder, CopyReport
from processor.standing import Standing
from processor.table_copying import TableCopying


class OrderedCopy:
    """Of one changefeed in one epoch; for its thread, but for ``stop``.

    ``begin`` makes what carries out an order; None where there is nothing to copy from.
    """

    def __init__(self, begin: Callable[[CopyOrder], TableCopying] | None) -> None:
        self._begin = begin
        self._copying: TableCopying | None = None
        self._told: CopyReport | None = None

    @property
    def under_way(self) -> bool:
        """Whether one goes on beside delivery, or is paused."""
        return self._copying is not None

    @property
    def paused(self) -> bool:
        """Whether the one that is under way is paused."""
        return self._copying is not None and self._copying.paused

    @property
    def caps(self) -> Mapping[str, Ts]:
        """Up to which ts tables may be delivered that are copied."""
        return self._copying.caps if self._copying is not None else {}

    @property
    def copied(self) -> CopyReport | None:
        """What was copied by it."""
        return self._copying.copied if self._copying is not None else None

    def follow(self, order: CopyOrder | None) -> bool:
        """Begin, pause or end as the order says; whether there is news of what was copied."""
        copying = self._copying
        if copying is not None and (order is None or order.id != copying.order.id):
            copying.stop(0)
            self._copying = copying = None
        if order is not None and copying is None and self._begin is not None:
            self._copying = copying = self._begin(order)
            copying.start()
        if copying is None or order is None:
            return False
        copying.pause(order.paused)
        if copying.copied is self._told:
            return False
        self._told = copying.copied
        return True

    def answer(
        self, standing: Standing, ahead: Iterable[Stand], ties: Iterable[tuple[str, str]]
    ) -> None:
        """Tell it where the tables stand."""
        if self._copying is not None:
            self._copying.answer(standing, ahead, ties)

    def stop(self) -> None:
        """End it, without waiting."""
        copying = self._copying
        if copying is not None:
            copying.stop(0)
