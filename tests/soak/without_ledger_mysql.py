"""``cdc`` whose workers write the ledger outside of the rows' transaction.

The negative control of the MySQL soak: if this delivers exactly once, the soak shows nothing. The
product has no such switch, so workers are forked from processes in which it is patched.
"""

from __future__ import annotations

from cdc.cli.main import main
from processor.spark import context
from tests.soak import daemon_without_ledger

# What is loaded here is that of resident workers, too, which are forks of this process.
context._REQUIRED["spark.python.daemon.module"] = daemon_without_ledger.__name__

if __name__ == "__main__":
    main()
