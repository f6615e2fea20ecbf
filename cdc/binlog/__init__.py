"""The binlog format of MySQL 5.6-9.x and MariaDB 10.4-11.8, both directions.

Cold-path Python over bytes: one event at a time, checked and named. Rows are decoded by
``cdc.kernels``; this package says what lies around them. Formats follow
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html and
https://mariadb.com/kb/en/replication-protocol/ unless a module names another source.
"""
