"""Real servers for tests, bench and demo: fetched once, started as throw-away processes."""

from tests.servers.broker import Broker, broker
from tests.servers.cluster import Cluster, cluster
from tests.servers.database import Database, database
from tests.servers.errors import StartFailed, Unavailable
from tests.servers.etcd import Etcd, etcd
from tests.servers.install import fetch

__all__ = [
    "Broker",
    "Cluster",
    "Database",
    "Etcd",
    "StartFailed",
    "Unavailable",
    "broker",
    "cluster",
    "database",
    "etcd",
    "fetch",
]
