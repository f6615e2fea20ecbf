"""``cdc`` whose producers of one epoch are no hindrance to those of another.

The negative control of the cluster's soak: if this delivers exactly once, the soak shows nothing of
what a frozen capture's workers may do when they wake. Epochs are held by the transactional ids that
producers have in common, and that a recovery fences. The product has no such switch, so each
process tree has ids of its own here: it is patched in a process of the test's own, which its
workers are forked from. Whether one is frozen between its rows and their commit is chance, so it
takes its time there.
"""

from __future__ import annotations

import os
import time
from typing import Any

from sink.kafka import deliverer

_shared = deliverer.transactional_id
_OWN = os.getpid()

deliverer.transactional_id = lambda feed, slot: f"{_shared(feed, slot)}-{_OWN}"

_COMMIT_S = 0.4
_commit = deliverer.KafkaDeliverer.commit


def _late(self: deliverer.KafkaDeliverer, *what: Any, **how: Any) -> Any:
    time.sleep(_COMMIT_S)
    return _commit(self, *what, **how)


deliverer.KafkaDeliverer.commit = _late  # type: ignore[method-assign]

# Behind that, as others import the function by its name.
from cdc.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
