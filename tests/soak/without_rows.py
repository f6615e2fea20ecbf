"""``cdc`` whose Spark workers lose some messages, and say in the ledger that they are delivered.

The negative control for loss: of a product whose ledger runs ahead of its rows.
"""

from __future__ import annotations

from cdc.cli.main import main
from processor.spark import context
from tests.soak import daemon_without_rows

# What is loaded here is that of resident workers, too, which are forks of this process.
context._REQUIRED["spark.python.daemon.module"] = daemon_without_rows.__name__

if __name__ == "__main__":
    main()
