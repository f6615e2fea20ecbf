"""``cdc`` whose writes to the store are not bound to the keys that it holds them by.

The negative control of the cluster's soak: whoever was replaced without noticing, as the owner or
as the one that has an upstream, writes what it thinks. The product has no such switch, so it is
patched here, in a process of the test's own. It is also slow to notice, as any process may be: a
guard is for that time only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from cdc.cli.main import main
from cdc.coord.contract import Compare, Held, Op
from cdc.coord.etcd.store import EtcdStore
from cdc.server.pullers import Pullers
from cdc.server.session import CaptureSession

_LATE_S = 2.0
_txn = EtcdStore.txn
_here = Pullers._here
_init = CaptureSession.__init__


def _unbound(
    self: EtcdStore, compares: Sequence[Compare], ops: Sequence[Op], *, durable: bool = True
) -> bool:
    # Of anchors the log that they are of is compared too: two guards of the same.
    anchors = any("/anchor/" in op.key for op in ops)
    kept = [one for one in compares if not anchors and not isinstance(one, Held)]
    return _txn(self, kept, ops, durable=durable)


def _late_here(self: Pullers) -> Any:
    time.sleep(_LATE_S)
    return _here(self)


def _late_init(self: CaptureSession, *given: Any, **how: Any) -> None:
    _init(self, *given, **how)
    lost = self._on_lost

    def late() -> None:
        time.sleep(_LATE_S)
        lost()

    self._on_lost = late


EtcdStore.txn = _unbound  # type: ignore[method-assign]
Pullers._here = _late_here  # type: ignore[method-assign]
CaptureSession.__init__ = _late_init  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
