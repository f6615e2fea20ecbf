"""Delivery into MySQL and MariaDB by row apply, exactly once.

A window of one bucket, as a worker delivers it::

    deliverer = MysqlDeliverer(settings, feed, epoch, bucket)
    plan = deliverer.plan(entries, upstream_mariadb=...)   # again when the log sees new tables
    cutter = deliverer.cutter(plan)
    deliverer.begin()                                      # locks the ledger row, or is fenced
    located = Located(segment, runs, rows, plan.plans, name)
    deliverer.apply(cutter, located, runs, order)          # for each chunk, in commit order
    deliverer.commit({("mysql", bucket): position})        # rows and position together

``BINLOG`` takes raw row events (``events``, ``cdc.kernels.apply``), which are exact for every type
and need no SQL; ``compat`` compares both sides' tables before the first row. ``ledger`` has the
protocol of epochs and positions, ``driver`` the capture's side.
"""
