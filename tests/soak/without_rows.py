"""``cdc`` whose Spark workers lose some messages, and say in the ledger that they are delivered.

The negative control for loss: of a product whose ledger runs ahead of its rows.
"""

from __future__ import annotations

from cdc.cli.main import main
from processor.spark import context

context._REQUIRED["spark.python.daemon.module"] = "tests.soak.daemon_without_rows"

if __name__ == "__main__":
    main()
