"""Delivery into MySQL and MariaDB, exactly once: by row images, or by SQL text.

A window, as a Spark worker delivers it::

    worker = MysqlWorker(settings, feed, epoch, slot)
    plans = worker.plan(entries, mariadb=...)             # again when the log sees new tables
    worker.begin([("mysql", 0), ("mysql", 1)])            # locks the ledger rows, or is fenced
    located = RowBatch(segment, runs, rows, plans, name)
    worker.deliver(located, runs, order, ("mysql", 1))    # for each chunk, in commit order
    worker.commit({("mysql", 1): position})               # rows and position together

``placement`` gives rows their buckets, a ``lane`` feeds the connection of one (``deliverer``).
``methods`` chooses the way of each table. ``BINLOG`` takes raw row events (``events``,
``cdc.kernels.apply``), which are exact for every type, where ``compat`` finds both sides' tables
the same; ``sql_*`` writes text elsewhere. ``ledger`` has the protocol of epochs and positions,
``driver`` the capture's side.
"""
