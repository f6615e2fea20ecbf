"""``cdc`` whose Spark workers write the ledger outside of the rows' transaction.

The negative control of the MySQL soak: if this delivers exactly once, the soak shows nothing. The
product has no such switch, so workers are forked from a daemon in which it is patched.
"""

from __future__ import annotations

from cdc.cli.main import main
from processor.spark import context

context._REQUIRED["spark.python.daemon.module"] = "tests.soak.daemon_without_ledger"

if __name__ == "__main__":
    main()
